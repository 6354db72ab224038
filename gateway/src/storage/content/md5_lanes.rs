//! MD5 (RFC 1321), of one byte string or of several side by side.
//!
//! Every body has an MD5, its ETag, and MD5 is the slowest thing that happens to a byte here: each step needs the result
//! of the one before, so that most of a core idles. Byte strings that are hashed at the same time do not depend on each
//! other. Two or three of them go through the steps in turns, in about the time of one; more of them, up to [`LANES`],
//! each in a lane of the vector registers, in less than the time of two. `pulp` picks the widest registers that the processor
//! has.
//!
//! The compiler makes vectors of the loops over lanes where the lanes fill registers: sixteen do, four and eight were
//! twice as slow as sixteen.

use pulp::{Arch, Simd, WithSimd};

/// Byte strings that go side by side.
pub(super) const LANES: usize = 16;

const BLOCK: usize = 64;

/// A digest under way.
#[derive(Clone, Debug)]
pub(super) struct Md5 {
    state: [u32; 4],
    /// Bytes so far.
    length: u64,
    /// Those that do not fill a block yet: `length % BLOCK` of them.
    tail: [u8; BLOCK],
}

impl Md5 {
    pub(super) fn new() -> Self {
        Self { state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476], length: 0, tail: [0; BLOCK] }
    }

    /// Takes the next bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        let bytes = self.fill_tail(bytes);
        let (blocks, rest) = bytes.split_at(bytes.len() - bytes.len() % BLOCK);
        side_by_side(&mut [(self, blocks)]);
        self.fill_tail(rest);
    }

    /// The digest of all bytes taken.
    pub(super) fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let in_tail = self.in_tail();
        // a one bit, zeroes to eight bytes before the end of a block, the length
        let mut padding = [0; 2 * BLOCK];
        padding[0] = 0x80;
        let length_at = if in_tail < BLOCK - 8 { BLOCK - 8 - in_tail } else { 2 * BLOCK - 8 - in_tail };
        padding[length_at..length_at + 8].copy_from_slice(&bits.to_le_bytes());
        self.update(&padding[..length_at + 8]);
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    fn in_tail(&self) -> usize {
        usize::try_from(self.length % BLOCK as u64).unwrap_or(0)
    }

    /// Takes bytes until a begun block is full; a new one is begun only with less than a block. Returns the rest.
    fn fill_tail<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let in_tail = self.in_tail();
        if in_tail == 0 && bytes.len() >= BLOCK {
            return bytes;
        }
        let (taken, rest) = bytes.split_at(bytes.len().min(BLOCK - in_tail));
        self.tail[in_tail..in_tail + taken.len()].copy_from_slice(taken);
        self.length += taken.len() as u64;
        if in_tail + taken.len() == BLOCK {
            let lane = self.state.map(|word| [word]);
            self.state = compress(lane, [&self.tail]).map(|[word]| word);
        }
        // Shorter than a block, or at a block's boundary.
        if rest.is_empty() || rest.len() >= BLOCK { rest } else { self.fill_tail(rest) }
    }
}

/// Byte strings of one digest each, in pieces.
pub(super) struct Stream<'a, B> {
    md5: &'a mut Md5,
    pieces: std::slice::Iter<'a, B>,
    /// What is left of the piece at hand: whole blocks and a rest.
    bytes: &'a [u8],
}

impl<'a, B: AsRef<[u8]>> Stream<'a, B> {
    pub(super) fn new(md5: &'a mut Md5, pieces: &'a [B]) -> Self {
        Self { md5, pieces: pieces.iter(), bytes: &[] }
    }

    /// Goes on to where there are whole blocks. Returns how many; 0 at the end.
    fn advance(&mut self) -> usize {
        loop {
            if self.bytes.len() >= BLOCK {
                return self.bytes.len() / BLOCK;
            }
            self.md5.fill_tail(self.bytes);
            let Some(piece) = self.pieces.next() else {
                self.bytes = &[];
                return 0;
            };
            self.bytes = self.md5.fill_tail(piece.as_ref());
        }
    }
}

/// Takes all of the streams' bytes, [`LANES`] streams at a time.
pub(super) fn update_all<B: AsRef<[u8]>>(streams: &mut [Stream<'_, B>]) {
    for lanes in streams.chunks_mut(LANES) {
        loop {
            let mut blocks = usize::MAX;
            let mut active: Vec<_> = lanes
                .iter_mut()
                .filter_map(|stream| {
                    let ready = stream.advance();
                    blocks = if ready > 0 { blocks.min(ready) } else { blocks };
                    (ready > 0).then_some(stream)
                })
                .collect();
            if active.is_empty() {
                break;
            }
            let mut taken: Vec<_> = active
                .iter_mut()
                .map(|stream| {
                    let (taken, rest) = stream.bytes.split_at(blocks * BLOCK);
                    stream.bytes = rest;
                    (&mut *stream.md5, taken)
                })
                .collect();
            side_by_side(&mut taken);
        }
    }
}

/// Takes equally many whole blocks of each, at block boundaries.
fn side_by_side(jobs: &mut [(&mut Md5, &[u8])]) {
    Arch::new().dispatch(SideBySide(jobs));
}

struct SideBySide<'a, 'm, 'b>(&'a mut [(&'m mut Md5, &'b [u8])]);

impl WithSimd for SideBySide<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // Without vectors of this width, lanes are turns, and more than three have no room in the registers.
        let most = if S::U32_LANES >= 8 { LANES } else { 3 };
        for lanes in self.0.chunks_mut(most) {
            match lanes.len() {
                1 => take::<1>(lanes),
                2 => take::<2>(lanes),
                3 => take::<3>(lanes),
                // Lanes that are left over go along with bytes of the first.
                _ => take::<LANES>(lanes),
            }
        }
    }
}

/// Takes the blocks of up to N byte strings of the same length.
#[inline(always)]
fn take<const N: usize>(jobs: &mut [(&mut Md5, &[u8])]) {
    let Some(first) = jobs.first().map(|(_, bytes)| *bytes) else { return };
    let (mut data, mut states) = ([first; N], [[0; N]; 4]);
    for (lane, (md5, bytes)) in jobs.iter().enumerate() {
        data[lane] = bytes;
        (0..4).for_each(|word| states[word][lane] = md5.state[word]);
    }
    states = compress(states, data);
    for (lane, (md5, bytes)) in jobs.iter_mut().enumerate() {
        md5.length += bytes.len() as u64;
        md5.state = std::array::from_fn(|word| states[word][lane]);
    }
}

/// Puts the blocks of N byte strings of the same length through the steps.
#[inline(always)]
fn compress<const N: usize>(mut states: [[u32; N]; 4], data: [&[u8]; N]) -> [[u32; N]; 4] {
    let blocks = data.iter().map(|bytes| bytes.len()).min().unwrap_or(0) / BLOCK;
    for block in 0..blocks {
        let at = block * BLOCK;
        let mut words = [[0; N]; 16];
        for (lane, bytes) in data.iter().enumerate() {
            for (word, bytes) in words.iter_mut().zip(bytes[at..at + BLOCK].chunks_exact(4)) {
                word[lane] = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
        states = rounds(states, &words);
    }
    states
}

/// floor(2^32 * abs(sin(i + 1))), RFC 1321, 3.4.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// The four rounds over one block of every lane.
#[inline(always)]
fn rounds<const N: usize>(state: [[u32; N]; 4], words: &[[u32; N]; 16]) -> [[u32; N]; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    macro_rules! step {
        ($mix:ident, $a:ident, $b:ident, $c:ident, $d:ident, $word:expr, $turn:expr, $i:expr) => {
            for lane in 0..N {
                let mixed = $a[lane]
                    .wrapping_add($mix($b[lane], $c[lane], $d[lane]))
                    .wrapping_add(SINES[$i])
                    .wrapping_add(words[$word % 16][lane]);
                $a[lane] = $b[lane].wrapping_add(mixed.rotate_left($turn));
            }
        };
    }
    // Step i of a round takes word (i * factor + first) mod 16.
    macro_rules! four_steps {
        ($mix:ident, $turns:expr, $factor:expr, $first:expr, $i:expr) => {
            step!($mix, a, b, c, d, $i * $factor + $first, $turns[0], $i);
            step!($mix, d, a, b, c, ($i + 1) * $factor + $first, $turns[1], $i + 1);
            step!($mix, c, d, a, b, ($i + 2) * $factor + $first, $turns[2], $i + 2);
            step!($mix, b, c, d, a, ($i + 3) * $factor + $first, $turns[3], $i + 3);
        };
    }
    macro_rules! round {
        ($mix:ident, $turns:expr, $factor:expr, $first:expr, $i:expr) => {
            four_steps!($mix, $turns, $factor, $first, $i);
            four_steps!($mix, $turns, $factor, $first, $i + 4);
            four_steps!($mix, $turns, $factor, $first, $i + 8);
            four_steps!($mix, $turns, $factor, $first, $i + 12);
        };
    }
    round!(f, [7, 12, 17, 22], 1, 0, 0);
    round!(g, [5, 9, 14, 20], 5, 1, 16);
    round!(h, [4, 11, 16, 23], 3, 5, 32);
    round!(i, [6, 10, 15, 21], 7, 0, 48);
    let add = |x: [u32; N], y: [u32; N]| std::array::from_fn(|lane| x[lane].wrapping_add(y[lane]));
    [add(a, state[0]), add(b, state[1]), add(c, state[2]), add(d, state[3])]
}

#[inline(always)]
fn f(x: u32, y: u32, z: u32) -> u32 {
    z ^ (x & (y ^ z))
}

#[inline(always)]
fn g(x: u32, y: u32, z: u32) -> u32 {
    y ^ (z & (x ^ y))
}

#[inline(always)]
fn h(x: u32, y: u32, z: u32) -> u32 {
    x ^ y ^ z
}

#[inline(always)]
fn i(x: u32, y: u32, z: u32) -> u32 {
    y ^ (x | !z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use md5::{Digest as _, Md5 as Reference};
    use proptest::prelude::*;

    #[test]
    fn digests_of_the_test_suite_of_rfc_1321() {
        let suite = [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ];
        for (text, digest) in suite {
            let mut md5 = Md5::new();
            md5.update(text.as_bytes());
            assert_eq!(hex::encode(md5.finish()), digest, "{text}");
        }
    }

    proptest! {
        // Up to 40 byte strings around block boundaries, in up to 5 pieces each, some of which have had bytes before.
        #[test]
        fn side_by_side_is_what_each_is_alone(
            strings in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..5), 1..40),
            before in 0_usize..130,
        ) {
            let mut hashes: Vec<_> = strings.iter().map(|_| Md5::new()).collect();
            for (n, md5) in hashes.iter_mut().enumerate() {
                md5.update(&vec![7; before * (n % 3)]);
            }
            let mut streams: Vec<_> =
                hashes.iter_mut().zip(&strings).map(|(md5, pieces)| Stream::new(md5, pieces)).collect();
            update_all(&mut streams);
            for (n, (md5, pieces)) in hashes.into_iter().zip(&strings).enumerate() {
                let mut reference = Reference::new();
                reference.update(vec![7; before * (n % 3)]);
                reference.update(pieces.concat());
                prop_assert_eq!(md5.finish(), <[u8; 16]>::from(reference.finalize()));
            }
        }
    }
}
