"""
A component for spaCy, samples from Hugging Face datasets
=========================================================

Named entities in a pipeline of spaCy, from a model of robustruct; and a function from a table of
the ``datasets`` library to samples. Neither library is a dependency: this page shows the code,
which runs where they are installed.
"""

# %%
# The features of a token are whatever a function makes of it, the same in training and in the
# pipeline.

from robustruct import CRF, load
from robustruct.losses import CostMatrix


def features(words):
    """A dict for each word, with its neighbours."""
    padded = ["<s>", *words, "</s>"]
    return [
        {
            "word": word.lower(),
            "suffix": word[-3:],
            "title": word.istitle(),
            "before": padded[i].lower(),
            "after": padded[i + 2].lower(),
        }
        for i, word in enumerate(words)
    ]


# %%
# A table of ``datasets`` has a row for each sentence, with tokens, and tags that are numbers of
# names.


def samples(table, tokens="tokens", tags="ner_tags"):
    """(X, y) of a ``datasets.Dataset``; tags become their names."""
    kind = table.features[tags].feature
    names = getattr(kind, "names", None)
    X = [features(words) for words in table[tokens]]
    y = [[names[tag] if names else tag for tag in row] for row in table[tags]]
    return X, y


def trained(table, path):
    """A model for which a missed name costs five times as much as another mistake."""
    X, y = samples(table)
    names = sorted({tag for row in y for tag in row if tag.startswith("B-")})
    missed = CostMatrix({(name, "O"): 5 for name in names})
    model = CRF(missed, alpha="auto", constraints="BIO").fit(X, y)
    model.save(path)
    return model


# %%
# The component writes entities to ``doc.ents``, and the probability of the label of each token to
# ``doc.user_data``.


def register():
    """Make ``nlp.add_pipe("robustruct_ner", config={"model": path})`` known."""
    from spacy.language import Language
    from spacy.tokens import Span
    from spacy.util import filter_spans

    @Language.factory("robustruct_ner", assigns=["doc.ents"])
    def make(nlp, name, model: str):
        tagger = load(model)

        def component(doc):
            if not len(doc):
                return doc
            x = features([token.text for token in doc])
            (labels,) = tagger.predict([x])
            (probabilities,) = tagger.predict_proba([x])
            spans, start = [], None
            for i, label in enumerate([*labels, "O"]):
                if start is not None and not label.startswith("I-"):
                    spans.append(Span(doc, start, i, label=labels[start][2:]))
                    start = None
                if label.startswith("B-"):
                    start = i
            doc.ents = filter_spans(spans)
            column = {label: a for a, label in enumerate(tagger.classes_.tolist())}
            scores = [float(row[column[b]]) for row, b in zip(probabilities, labels, strict=True)]
            doc.user_data["robustruct_scores"] = scores
            return doc

        return component


# %%
# In a program::
#
#     import spacy
#
#     register()
#     nlp = spacy.blank("en")
#     nlp.add_pipe("robustruct_ner", config={"model": "names.model"})
#     [(ent.text, ent.label_) for ent in nlp("Ada Lovelace met Charles Babbage.").ents]
