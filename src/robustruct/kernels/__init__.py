"""Every compiled loop: arrays in, arrays out, nothing validated, the caller owns the memory.

What the arrays hold is said in structs.py, in whose NamedTuples they travel. Kernels work on a
range of samples, first .. last-1, or on the nodes lo .. hi-1 of one sample; helpers of training and
of the interior point count the nodes of a sample from 0.
"""
