//! SHA-256 of many messages at once.
//!
//! The build hashes every transaction, script and merkle node of the chain. On processors without SHA instructions that
//! is most of its time. Messages are independent, so they are hashed side by side, one per vector lane (16 with
//! AVX-512, 8 with AVX2), grouped by length so that no lane idles. The `sha2` crate hashes one by one where the
//! processor has neither, or has SHA instructions, which are faster than eight lanes.
//!
//! This file and `prefetch` are the only ones of the crate with `unsafe`: the standard library offers vector
//! instructions that a processor may lack, and loads from memory, in no other form.
//!
//! Invariant: every path returns the digest of [FIPS 180-4](https://csrc.nist.gov/pubs/fips/180-4/upd1/final); the
//! tests compare each with `sha2`.

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, in the byte order of the hash function.
pub type Hash256 = [u8; 32];

/// Hashes each message once.
pub(crate) fn sha256_many(messages: &[&[u8]], out: &mut Vec<Hash256>) {
    Lanes::detect().run(messages, out);
}

/// Hashes each message twice, as Bitcoin does for transactions, blocks and merkle nodes.
pub fn sha256d_many(messages: &[&[u8]], out: &mut Vec<Hash256>) {
    let lanes = Lanes::detect();
    let mut inner = Vec::with_capacity(messages.len());
    lanes.run(messages, &mut inner);
    let inner: Vec<&[u8]> = inner.iter().map(<[u8; 32]>::as_slice).collect();
    lanes.run(&inner, out);
}

/// Hashes one message twice.
pub fn sha256d(message: &[u8]) -> Hash256 {
    Sha256::digest(Sha256::digest(message)).into()
}

/// The fewest messages that are hashed in lanes: lanes take as long for one message as for all.
const WORTH_LANES: usize = 3;

/// A way of hashing many messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lanes {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    One,
}

impl Lanes {
    /// The fastest way on this processor.
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_avx512() {
                return Self::Avx512;
            }
            if !std::is_x86_feature_detected!("sha") && std::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::One
    }

    fn run(self, messages: &[&[u8]], out: &mut Vec<Hash256>) {
        match self {
            _ if messages.len() < WORTH_LANES => one_by_one(messages, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => in_lanes::<16>(messages, out, x86::compress_avx512),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => in_lanes::<8>(messages, out, x86::compress_avx2),
            Self::One => one_by_one(messages, out),
        }
    }
}

fn one_by_one(messages: &[&[u8]], out: &mut Vec<Hash256>) {
    out.clear();
    out.extend(messages.iter().map(|message| <Hash256>::from(Sha256::digest(message))));
}

/// The eight state words of N messages, word by word.
#[cfg(target_arch = "x86_64")]
type States<const N: usize> = [[u32; N]; 8];

/// One 64-byte block of each of N messages.
#[cfg(target_arch = "x86_64")]
type Blocks<'a, const N: usize> = [&'a [u8; BLOCK]; N];

#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 64;

/// The end of a message with its padding: one or two blocks.
#[cfg(target_arch = "x86_64")]
type Tail = [[u8; BLOCK]; 2];

/// Blocks of a message once padded: one byte `0x80`, zeros, and the length in eight bytes.
#[cfg(target_arch = "x86_64")]
const fn padded_blocks(len: usize) -> usize {
    (len + 8) / BLOCK + 1
}

#[cfg(target_arch = "x86_64")]
fn in_lanes<const N: usize>(messages: &[&[u8]], out: &mut Vec<Hash256>, compress: fn(&mut States<N>, &Blocks<'_, N>)) {
    out.clear();
    out.resize(messages.len(), [0; 32]);
    let blocks = |index: u32| padded_blocks(messages[index as usize].len());
    let mut order: Vec<u32> = (0..u32::try_from(messages.len()).expect("a block holds fewer messages")).collect();
    order.sort_by_key(|index| blocks(*index));
    for group in order.chunks(N) {
        hash_group::<N>(messages, group, out, compress);
    }
}

/// Hashes up to N messages of (nearly) the same length, ascending by it.
#[cfg(target_arch = "x86_64")]
fn hash_group<const N: usize>(
    messages: &[&[u8]],
    group: &[u32],
    out: &mut [Hash256],
    compress: fn(&mut States<N>, &Blocks<'_, N>),
) {
    // Lanes without a message of their own repeat the last one.
    let index = |lane: usize| group[lane.min(group.len() - 1)] as usize;
    let lanes: [&[u8]; N] = std::array::from_fn(|lane| messages[index(lane)]);
    let mut tails: [Tail; N] = [[[0; BLOCK]; 2]; N];
    for (message, tail) in lanes.iter().zip(&mut tails) {
        pad(message, tail);
    }
    let shortest = padded_blocks(lanes[0].len());
    let longest = padded_blocks(lanes[N - 1].len());
    let mut state: States<N> = IV.map(|word| [word; N]);
    for at in 0..longest {
        let blocks: Blocks<'_, N> = std::array::from_fn(|lane| block_at(lanes[lane], &tails[lane], at));
        compress(&mut state, &blocks);
        if at + 1 >= shortest {
            for lane in 0..group.len() {
                if at + 1 == padded_blocks(lanes[lane].len()) {
                    take_digest(&state, lane, &mut out[index(lane)]);
                }
            }
        }
    }
}

/// Fills in the last one or two blocks of a message.
#[cfg(target_arch = "x86_64")]
fn pad(message: &[u8], tail: &mut Tail) {
    let (_, rest) = message.as_chunks::<BLOCK>();
    let blocks = 1 + usize::from(rest.len() + 9 > BLOCK);
    let bytes = tail.as_flattened_mut();
    bytes[..rest.len()].copy_from_slice(rest);
    bytes[rest.len()] = 0x80;
    bytes[blocks * BLOCK - 8..blocks * BLOCK].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());
}

/// Block `at` of a padded message; past its end, any: that lane's digest was taken before.
#[cfg(target_arch = "x86_64")]
#[inline]
fn block_at<'a>(message: &'a [u8], tail: &'a Tail, at: usize) -> &'a [u8; BLOCK] {
    let (full, _) = message.as_chunks::<BLOCK>();
    full.get(at).unwrap_or_else(|| &tail[(at - full.len()).min(1)])
}

#[cfg(target_arch = "x86_64")]
fn take_digest<const N: usize>(state: &States<N>, lane: usize, digest: &mut Hash256) {
    for (word, bytes) in state.iter().zip(digest.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&word[lane].to_be_bytes());
    }
}

#[cfg(target_arch = "x86_64")]
const IV: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "vector instructions: called only after the processor was seen to have them")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_set_epi8, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_loadu_si256,
        _mm256_or_si256, _mm256_set1_epi32, _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_si256,
        _mm256_xor_si256, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_loadu_si512, _mm512_ror_epi32,
        _mm512_set1_epi32, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_shuffle_i32x4, _mm512_srli_epi32,
        _mm512_storeu_si512, _mm512_ternarylogic_epi32, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
        _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use super::{BLOCK, Blocks, K, States};

    pub(super) fn has_avx512() -> bool {
        std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw")
    }

    pub(super) fn compress_avx512(state: &mut States<16>, blocks: &Blocks<'_, 16>) {
        debug_assert!(has_avx512());
        // SAFETY: `Lanes::detect` chooses this path only on a processor with AVX-512 F and BW.
        unsafe { avx512(state, blocks) }
    }

    pub(super) fn compress_avx2(state: &mut States<8>, blocks: &Blocks<'_, 8>) {
        debug_assert!(std::is_x86_feature_detected!("avx2"));
        // SAFETY: `Lanes::detect` chooses this path only on a processor with AVX2.
        unsafe { avx2(state, blocks) }
    }

    /// The 64 rounds of FIPS 180-4, section 6.2.2, written once for vectors of any width.
    macro_rules! rounds {
        ($state:ident, $words:expr, $load:ident, $store:ident, $add:ident, $set1:ident,
         $ch:ident, $maj:ident, $big0:ident, $big1:ident, $small0:ident, $small1:ident) => {{
            let mut w = $words;
            let [s0, s1, s2, s3, s4, s5, s6, s7] = &*$state;
            let (mut a, mut b, mut c, mut d) = ($load(s0), $load(s1), $load(s2), $load(s3));
            let (mut e, mut f, mut g, mut h) = ($load(s4), $load(s5), $load(s6), $load(s7));
            for sixteen in 0..4 {
                for i in 0..16 {
                    if sixteen > 0 {
                        let small = $add($small0(w[(i + 1) % 16]), $small1(w[(i + 14) % 16]));
                        w[i] = $add($add(w[i], w[(i + 9) % 16]), small);
                    }
                    let k = $set1(K[sixteen * 16 + i].cast_signed());
                    let t1 = $add($add($add(h, $big1(e)), $add($ch(e, f, g), k)), w[i]);
                    let t2 = $add($big0(a), $maj(a, b, c));
                    h = g;
                    g = f;
                    f = e;
                    e = $add(d, t1);
                    d = c;
                    c = b;
                    b = a;
                    a = $add(t1, t2);
                }
            }
            for (lanes, value) in $state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                let sum = $add($load(lanes), value);
                $store(lanes, sum);
            }
        }};
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn avx512(state: &mut States<16>, blocks: &Blocks<'_, 16>) {
        rounds!(
            state,
            words512(blocks),
            load512,
            store512,
            _mm512_add_epi32,
            _mm512_set1_epi32,
            ch512,
            maj512,
            big0_512,
            big1_512,
            small0_512,
            small1_512
        );
    }

    /// The sixteen words of sixteen blocks, word by word: a transposition in four steps of pairwise exchanges.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn words512(blocks: &Blocks<'_, 16>) -> [__m512i; 16] {
        let swap = _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
        let mut rows = [_mm512_setzero_si512(); 16];
        for (row, block) in rows.iter_mut().zip(blocks) {
            // SAFETY: the reference is to 64 readable bytes, and the load needs no alignment.
            let loaded = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            *row = _mm512_shuffle_epi8(loaded, swap);
        }
        let mut next = rows;
        for i in 0..8 {
            next[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
            next[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
        }
        for i in 0..4 {
            let four = [next[4 * i], next[4 * i + 1], next[4 * i + 2], next[4 * i + 3]];
            rows[4 * i] = _mm512_unpacklo_epi64(four[0], four[2]);
            rows[4 * i + 1] = _mm512_unpackhi_epi64(four[0], four[2]);
            rows[4 * i + 2] = _mm512_unpacklo_epi64(four[1], four[3]);
            rows[4 * i + 3] = _mm512_unpackhi_epi64(four[1], four[3]);
        }
        // Row `4 g + w` now holds, in its quarter `q`, word `4 q + w` of the four messages of group `g`.
        for w in 0..4 {
            let (a, b, c, d) = (rows[w], rows[4 + w], rows[8 + w], rows[12 + w]);
            let (ab_even, ab_odd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
            let (cd_even, cd_odd) = (_mm512_shuffle_i32x4::<0x88>(c, d), _mm512_shuffle_i32x4::<0xdd>(c, d));
            next[w] = _mm512_shuffle_i32x4::<0x88>(ab_even, cd_even);
            next[8 + w] = _mm512_shuffle_i32x4::<0xdd>(ab_even, cd_even);
            next[4 + w] = _mm512_shuffle_i32x4::<0x88>(ab_odd, cd_odd);
            next[12 + w] = _mm512_shuffle_i32x4::<0xdd>(ab_odd, cd_odd);
        }
        next
    }

    /// The sixteen words of eight blocks, by plain loads.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn words256(blocks: &Blocks<'_, 8>) -> [__m256i; 16] {
        let mut words = [[0; 8]; 16];
        for (lane, block) in blocks.iter().enumerate() {
            let (bytes, _) = block.as_chunks::<4>();
            debug_assert_eq!(bytes.len() * 4, BLOCK);
            for (word, bytes) in words.iter_mut().zip(bytes) {
                word[lane] = u32::from_be_bytes(*bytes);
            }
        }
        let mut loaded = [_mm256_set1_epi32(0); 16];
        for (to, word) in loaded.iter_mut().zip(&words) {
            *to = load256(word);
        }
        loaded
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load512(lanes: &[u32; 16]) -> __m512i {
        // SAFETY: the reference is to 64 readable bytes, and the load needs no alignment.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store512(lanes: &mut [u32; 16], value: __m512i) {
        // SAFETY: the reference is to 64 writable bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), value) }
    }

    // The third operand of `ternarylogic` is the truth table of the function of three bits.
    const CHOOSE: i32 = 0xca;
    const MAJORITY: i32 = 0xe8;
    const XOR3: i32 = 0x96;

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn ch512(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<CHOOSE>(x, y, z)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn maj512(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<MAJORITY>(x, y, z)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn xor512(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
        _mm512_ternarylogic_epi32::<XOR3>(x, y, z)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn big0_512(x: __m512i) -> __m512i {
        xor512(_mm512_ror_epi32::<2>(x), _mm512_ror_epi32::<13>(x), _mm512_ror_epi32::<22>(x))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn big1_512(x: __m512i) -> __m512i {
        xor512(_mm512_ror_epi32::<6>(x), _mm512_ror_epi32::<11>(x), _mm512_ror_epi32::<25>(x))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn small0_512(x: __m512i) -> __m512i {
        xor512(_mm512_ror_epi32::<7>(x), _mm512_ror_epi32::<18>(x), _mm512_srli_epi32::<3>(x))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn small1_512(x: __m512i) -> __m512i {
        xor512(_mm512_ror_epi32::<17>(x), _mm512_ror_epi32::<19>(x), _mm512_srli_epi32::<10>(x))
    }

    #[target_feature(enable = "avx2")]
    fn avx2(state: &mut States<8>, blocks: &Blocks<'_, 8>) {
        rounds!(
            state,
            words256(blocks),
            load256,
            store256,
            _mm256_add_epi32,
            _mm256_set1_epi32,
            ch256,
            maj256,
            big0_256,
            big1_256,
            small0_256,
            small1_256
        );
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load256(lanes: &[u32; 8]) -> __m256i {
        // SAFETY: the reference is to 32 readable bytes, and the load needs no alignment.
        unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store256(lanes: &mut [u32; 8], value: __m256i) {
        // SAFETY: the reference is to 32 writable bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), value) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn ror256<const RIGHT: i32, const LEFT: i32>(x: __m256i) -> __m256i {
        const { assert!(RIGHT + LEFT == 32) };
        _mm256_or_si256(_mm256_srli_epi32::<RIGHT>(x), _mm256_slli_epi32::<LEFT>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor256(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_xor_si256(x, y), z)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn ch256(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_and_si256(x, y), _mm256_andnot_si256(x, z))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn maj256(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
        _mm256_or_si256(_mm256_and_si256(x, y), _mm256_and_si256(z, _mm256_or_si256(x, y)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn big0_256(x: __m256i) -> __m256i {
        xor256(ror256::<2, 30>(x), ror256::<13, 19>(x), ror256::<22, 10>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn big1_256(x: __m256i) -> __m256i {
        xor256(ror256::<6, 26>(x), ror256::<11, 21>(x), ror256::<25, 7>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn small0_256(x: __m256i) -> __m256i {
        xor256(ror256::<7, 25>(x), ror256::<18, 14>(x), _mm256_srli_epi32::<3>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn small1_256(x: __m256i) -> __m256i {
        xor256(ror256::<17, 15>(x), ror256::<19, 13>(x), _mm256_srli_epi32::<10>(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Vec<Lanes> {
        #[cfg(target_arch = "x86_64")]
        {
            let mut paths = vec![Lanes::One];
            if x86::has_avx512() {
                paths.push(Lanes::Avx512);
            }
            if std::is_x86_feature_detected!("avx2") {
                paths.push(Lanes::Avx2);
            }
            paths
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![Lanes::One]
    }

    #[test]
    fn every_path_gives_the_digest_of_sha2_for_every_length_up_to_four_blocks() {
        let text: Vec<u8> = (0..260_u32).map(|i| (i * 7 % 251) as u8).collect();
        let messages: Vec<&[u8]> = (0..text.len()).rev().map(|len| &text[..len]).collect();
        let expected: Vec<Hash256> = messages.iter().map(|m| Sha256::digest(m).into()).collect();
        for path in paths() {
            let mut digests = Vec::new();
            path.run(&messages, &mut digests);
            assert_eq!(digests, expected, "{path:?}");
        }
    }

    #[test]
    fn double_hash_of_many_equals_double_hash_of_one() {
        let messages: Vec<&[u8]> = vec![b"", b"a", &[7; 64], &[9; 100_000]];
        let mut digests = Vec::new();
        sha256d_many(&messages, &mut digests);
        let expected: Vec<Hash256> = messages.iter().map(|m| sha256d(m)).collect();
        assert_eq!(digests, expected);
    }
}
