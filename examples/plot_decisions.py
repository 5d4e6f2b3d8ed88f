"""
What will it cost, and what does certainty cost?
================================================

A redactor blacks out personal data. A missed token is a leak and costs 20, a false alarm 1. Before
anybody trusts it, three questions come up: What will it cost on texts to come? Which tokens should
a person look at? Can leaks be kept below 2 %, and what does that take? Each has one line of code
and a price.

The texts are generated from templates, and texts of one template are alike, so the templates, not
the texts, are what is drawn at random. No template is in two of the three parts.

|data_note|
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from corpora.pii import load_pii
from robustruct import CRF
from robustruct.losses import CostMatrix

train, held_out, test = (load_pii(split) for split in ("train", "dev", "test"))
labels = np.unique(np.concatenate([*train.y, *held_out.y, *test.y]))
cost = 1.0 - np.eye(len(labels))
cost[:, labels == "O"] *= 20  # rows: true label, columns: predicted label
missed_is_dear = CostMatrix(cost, labels)

# %%
# Train for a miss of 20
# ----------------------
# Whole templates are held out for the choice of the penalty and of the scale of scores.

model = CRF(missed_is_dear, alpha=[3e-4, 1e-3, 3e-3], decision="bayes", random_state=0)
model.fit(train.X, train.y, groups=train.groups)
print(f"alpha {model.alpha_:g}, scale of scores {model.decision_scale_:.2g}")

# %%
# What will it cost?
# ------------------
# The mean over held-out samples is an estimate. The certificate is a bound, and says for whom.

by_template = model.certify(held_out.X, held_out.y, groups=held_out.groups)
print(by_template)

# %%
# Taken for independent, the same texts seem to prove more. They do not: texts of a template are
# alike, and their number says little.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    as_if = model.certify(held_out.X, held_out.y)
print(f"as if independent {as_if.upper:.3f}, by template {by_template.upper:.3f}")

# %%
# Which tokens should a person look at?
# -------------------------------------
# A look costs .1. The model asks wherever no label is expected to cost less. Reviewing everything
# and nothing are the baselines.


def price_per_token(answers, price=0.0):
    """What answers cost on the test texts; a review costs its price."""
    of = {label: a for a, label in enumerate(labels.tolist())}
    paid = [
        price if found == "review" else cost[of[true], of[found]]
        for truth, row in zip(test.y, answers, strict=True)
        for true, found in zip(truth.tolist(), row.tolist(), strict=True)
    ]
    return float(np.mean(paid))


prices = [0.02, 0.05, 0.1, 0.2, 0.5]
asked, curve = [], []
for price in prices:
    answers = model.predict(test.X, actions={"review": price})
    asked.append(float(np.mean(np.concatenate(answers) == "review")))
    curve.append(price_per_token(answers, price))
plain = model.predict(test.X)
nothing = price_per_token(plain)
for price, share, paid in zip(prices, asked, curve, strict=True):
    print(
        f"review at {price:4g}: {paid:.3f} per token, {share:6.1%} reviewed; nothing {nothing:.3f}"
    )

# %%
# Leaks below 2 %
# ---------------
# ``control`` calibrates a rule that answers O only where that is safe. It needs to know how many
# personal tokens a text can have at most, and enough texts. These are too few for 2 %, and it says
# so.

most = 33  # personal tokens; no text of this source has more
try:
    model.control(held_out.X, held_out.y, miss=0.02, label="O", most=most)
except ValueError as error:
    print(error)

# %%
# Half of the test texts help out, drawn at random; the rule is tried on the other half.

drawn = np.random.default_rng(0).permutation(len(test.X))
more, rest = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
X_more = held_out.X + [test.X[i] for i in more]
y_more = held_out.y + [test.y[i] for i in more]
X_rest, y_rest = [test.X[i] for i in rest], np.concatenate([test.y[i] for i in rest])
personal = y_rest != "O"
usual = np.concatenate([plain[i] for i in rest])
rows = [("usual", (usual == "O")[personal].mean(), (usual != "O")[~personal].mean())]
for target in (0.2, 0.1, 0.05, 0.02):
    try:
        rule = model.control(X_more, y_more, miss=target, label="O", most=most)
    except ValueError:
        print(f"{target:.0%}: not with {len(X_more)} texts")
        continue
    found = np.concatenate(model.predict(X_rest, rule=rule))
    rows.append(
        (f"{target:.0%}", (found == "O")[personal].mean(), (found != "O")[~personal].mean())
    )
for name, leaks, alarms in rows:
    print(f"{name:>6}: {leaks:.1%} leaked, {alarms:.1%} of other tokens blacked out")

# %%
# In one picture
# --------------

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.plot(prices, curve, "o-", color="#0b6e99", label="review where it pays")
left.plot(prices, prices, "--", color="0.5", label="review all")
left.axhline(nothing, color="#d1721f", linestyle="--", label="review nothing")
left.axhline(by_template.upper, color="#7a5195", label="certified, 95 %")
left.set(xlabel="price of a review", ylabel="cost per token", xscale="log", yscale="log")
left.legend(frameon=False, fontsize=8)
names, leaks, alarms = zip(*rows, strict=True)
right.plot(np.array(alarms) * 100, np.array(leaks) * 100, "o-", color="#0b6e99")
for name, x, y in zip(names, alarms, leaks, strict=True):
    right.annotate(name, (100 * x, 100 * y), xytext=(5, 5), textcoords="offset points")
right.set(xlabel="other tokens blacked out (%)", ylabel="personal tokens leaked (%)")
figure.tight_layout()
plt.show()
