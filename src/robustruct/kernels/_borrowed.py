"""Arrays that nobody counts references to, for kernels that several threads run at once.

Numba counts the references to an array whenever a kernel takes a view of it. Threads that share
arrays share these counters as well, so that each count moves a cache line from core to core. The
caller holds the arrays for as long as the kernel runs: there is no need to count.
"""

from numba import types
from numba.extending import intrinsic


def _without_owner(context, builder, kind, value):
    """An array without what its references are counted in; so for every field of a tuple."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.meminfo.type(None)
        array.parent = array.parent.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        fields = [
            _without_owner(context, builder, field, builder.extract_value(value, i))
            for i, field in enumerate(kind)
        ]
        return context.make_tuple(builder, kind, fields)
    return value


@intrinsic
def borrowed(typing_context, value):
    """The same array or tuple of arrays, valid as long as its caller holds it."""

    def code(context, builder, signature, arguments):
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return value(value), code
