"""Standard normal noise of which every element is addressable: ``eps(key)[i]`` is a pure function of ``(key, i)``.

Philox 4x32-10 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*, 2011) turns a counter under a 64-bit key
into four 32-bit words; Box-Muller turns words 0 and 1, and words 2 and 3, into two normals each (cosine first). Element
``i`` is normal ``i % 1024 // 256`` of counter ``i // 1024 * 256 + i % 256``: a chunk of 1,024 elements is four contiguous
runs of 256, which is what vector units and GPUs store fastest. So the values depend on neither the device, the sharding,
nor the order of evaluation.

The key of a parameter is a hash of ``(run seed, noise id, canonical parameter name)``: parameters of the same shape,
members and runs get independent noise, and no two of them are related by arithmetic on seeds.

Box-Muller's logarithm, sine and cosine are fixed polynomials evaluated in fp32 without contraction or reassociation, not
calls of a math library: the floats, too, are the same wherever arithmetic is IEEE 754. Their absolute error against float64
is below 2e-6 (a test holds it); the largest value is sqrt(-2 ln 2^-33) = 6.76.
"""

from __future__ import annotations

import hashlib

import numba
import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]

CHUNK = 1024
"""Elements of one chunk (4 KB of fp32: it stays in the first-level cache)."""
_RUN = 256


def noise_key(run_seed: int, noise_id: int, parameter: str) -> int:
    """64-bit Philox key of one parameter of one member."""
    text = f"async-es-bench/noise/1|{run_seed}|{noise_id}|{parameter}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


_U32 = np.uint32
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = _U32(0x9E3779B9)
_W1 = _U32(0xBB67AE85)
_SHIFT32 = np.uint64(32)
_LOW32 = np.uint64(0xFFFFFFFF)
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)
_ZERO = np.float32(0.0)
_MINUS_TWO = np.float32(-2.0)
_TINY = np.float32(2.0**-33)
_SCALE31 = np.float32(2.0**-31)
_LN2 = np.float32(0.6931471805599453)
_MANTISSA = np.int32(0x007FFFFF)
_EXP_SHIFT = np.int32(23)
_SQRT_HALF = np.int32(0x3F3504F3)  # the bits of sqrt(1/2)

# ln(1 + x) on [sqrt(1/2) - 1, sqrt(2) - 1]: minimax coefficients of the Cephes library's logf.
_L = tuple(
    np.float32(c)
    for c in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = _L
# sin and cos of (pi/2) t on [-1/2, 1/2]: Taylor terms to beyond fp32's precision.
_S1, _S3, _S5, _S7, _S9 = (
    np.float32(c)
    for c in (
        1.5707963267948966,
        -0.6459640975062462,
        0.07969262624616703,
        -0.004681754135318687,
        0.00016044118478735982,
    )
)
_C2, _C4, _C6, _C8 = (
    np.float32(c)
    for c in (-1.2337005501361697, 0.253669507901048, -0.020863480763352960, 0.0009192602748394265)
)


_EIGHTH = _U32(0x20000000)
_EIGHTH_SIGNED = np.int32(0x20000000)
_FRACTION = _U32(0x3FFFFFFF)
_SCALE30 = np.float32(2.0**-30)


@numba.njit(inline="always")
def _philox(block, k0, k1):  # type: ignore[no-untyped-def]
    """Philox 4x32-10 of the 128-bit counter ``(block low, block high, 0, 0)``: four 32-bit words."""
    c0 = _U32(block & _LOW32)
    c1 = _U32(block >> _SHIFT32)
    c2 = _U32(0)
    c3 = _U32(0)
    for _ in range(10):
        p0 = _M0 * np.uint64(c0)
        p1 = _M1 * np.uint64(c2)
        c0 = _U32(p1 >> _SHIFT32) ^ c1 ^ k0
        c2 = _U32(p0 >> _SHIFT32) ^ c3 ^ k1
        c1 = _U32(p1 & _LOW32)
        c3 = _U32(p0 & _LOW32)
        k0 = _U32(k0 + _W0)
        k1 = _U32(k1 + _W1)
    return c0, c1, c2, c3


@numba.njit(cache=True, nogil=True)
def _radii(bits, out):  # type: ignore[no-untyped-def]
    """out = sqrt(-2 ln u) for u = (bits // 2 + 1/4) / 2^31."""
    for j in range(_RUN):
        out[j] = np.float32(np.int32(bits[j] >> _U32(1))) * _SCALE31 + _TINY
    as_int = out.view(np.int32)
    for j in range(_RUN):
        u = np.int32(as_int[j] - _SQRT_HALF)
        bits[j] = _U32(u >> _EXP_SHIFT)
        as_int[j] = np.int32(np.int32(u & _MANTISSA) + _SQRT_HALF)
    exponent = bits.view(np.int32)
    for j in range(_RUN):
        x = out[j] - _ONE
        z = x * x
        p = _L0
        p = p * x + _L1
        p = p * x + _L2
        p = p * x + _L3
        p = p * x + _L4
        p = p * x + _L5
        p = p * x + _L6
        p = p * x + _L7
        p = p * x + _L8
        log = (x * z * p - _HALF * z + x) + np.float32(exponent[j]) * _LN2
        square = _MINUS_TWO * log
        out[j] = np.sqrt(square if square > _ZERO else _ZERO)


@numba.njit(cache=True, nogil=True)
def _turn(bits, radii, cosines, sines):  # type: ignore[no-untyped-def]
    """radii * cos and radii * sin of ``2 pi bits / 2^32``: a quadrant, and a polynomial on an eighth of a turn about it."""
    for j in range(_RUN):
        shifted = _U32(bits[j] + _EIGHTH)
        quadrant = np.int32(shifted >> _U32(30))
        t = np.float32(np.int32(np.int32(shifted & _FRACTION) - _EIGHTH_SIGNED)) * _SCALE30
        z = t * t
        sine = t * (_S1 + z * (_S3 + z * (_S5 + z * (_S7 + z * _S9))))
        cosine = _ONE + z * (_C2 + z * (_C4 + z * (_C6 + z * _C8)))
        odd = (quadrant & 1) != 0
        a = sine if odd else cosine
        b = cosine if odd else sine
        r = radii[j]
        cosines[j] = r * (-a if ((quadrant + 1) & 2) != 0 else a)
        sines[j] = r * (-b if (quadrant & 2) != 0 else b)


@numba.njit(cache=True, nogil=True)
def _chunk(index, k0, k1, words, radii, out):  # type: ignore[no-untyped-def]
    """The 1,024 elements of chunk ``index`` into ``out``; ``words`` (4, 256) and ``radii`` (256,) are scratch."""
    first = np.uint64(index) * np.uint64(_RUN)
    for j in range(_RUN):
        words[0, j], words[1, j], words[2, j], words[3, j] = _philox(first + np.uint64(j), k0, k1)
    for pair in range(2):
        _radii(words[2 * pair], radii)
        base = 2 * pair * _RUN
        _turn(words[2 * pair + 1], radii, out[base : base + _RUN], out[base + _RUN : base + 2 * _RUN])


@numba.njit(cache=True, nogil=True)
def _scratch():  # type: ignore[no-untyped-def]
    return np.empty((4, _RUN), np.uint32), np.empty(_RUN, np.float32), np.empty(CHUNK, np.float32)


@numba.njit(cache=True, nogil=True)
def _fill(key, start, out):  # type: ignore[no-untyped-def]
    k0 = _U32(key & _LOW32)
    k1 = _U32(key >> _SHIFT32)
    words, radii, buffer = _scratch()
    done = 0
    while done < out.size:
        at = start + done
        offset = at % CHUNK
        n = min(CHUNK - offset, out.size - done)
        _chunk(at // CHUNK, k0, k1, words, radii, buffer)
        out[done : done + n] = buffer[offset : offset + n]
        done += n


@numba.njit(cache=True, nogil=True)
def _perturb(key, scale, master, out):  # type: ignore[no-untyped-def]
    k0 = _U32(key & _LOW32)
    k1 = _U32(key >> _SHIFT32)
    words, radii, buffer = _scratch()
    for start in range(0, master.size, CHUNK):
        n = min(CHUNK, master.size - start)
        _chunk(start // CHUNK, k0, k1, words, radii, buffer)
        for j in range(n):
            out[start + j] = master[start + j] + scale * buffer[j]


@numba.njit(cache=True, nogil=True)
def _accumulate(keys, coefficients, out):  # type: ignore[no-untyped-def]
    words, radii, buffer = _scratch()
    total = np.empty(CHUNK, np.float32)
    for start in range(0, out.size, CHUNK):
        n = min(CHUNK, out.size - start)
        total[:] = _ZERO
        for m in range(keys.size):
            _chunk(start // CHUNK, _U32(keys[m] & _LOW32), _U32(keys[m] >> _SHIFT32), words, radii, buffer)
            c = coefficients[m]
            for j in range(n):
                total[j] += c * buffer[j]
        for j in range(n):
            out[start + j] += total[j]


def normals(key: int, count: int, start: int = 0) -> Float32:
    """Elements ``start .. start + count`` of the noise under ``key``. Shape ``(count,)``, fp32."""
    out = np.empty(count, np.float32)
    _fill(np.uint64(key), start, out)
    return out


def perturb(key: int, scale: float, master: Float32, out: Float32) -> None:
    """``out = master + scale * eps(key)``, in one pass. Both flat, fp32, of the same length; ``master`` is only read."""
    _perturb(np.uint64(key), np.float32(scale), master, out)


def accumulate(keys: list[int], coefficients: list[float], out: Float32) -> None:
    """``out += sum_i coefficients[i] * eps(keys[i])``, the sum formed in fp32 in the order given, then added once."""
    _accumulate(np.array(keys, np.uint64), np.array(coefficients, np.float32), out)
