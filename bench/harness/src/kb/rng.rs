//! Numbers that look random and are the same in every run.

/// The SplitMix64 sequence.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    /// The sequence number `stream` of the kind `kind`; different ones have nothing in common.
    pub(super) fn new(kind: u64, stream: u64) -> Self {
        let mut rng = Self(kind.rotate_left(32) ^ stream);
        Self(rng.next())
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `bound`, which is not included.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        // The remainder favours small numbers by far less than anybody could measure.
        (self.next() % bound as u64) as usize
    }

    pub(super) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// From 0 to 1, which is not included.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
