//! A small seeded source of random numbers, so that what is drawn can be drawn again: SplitMix64 (Steele, Lea, Flood,
//! "Fast splittable pseudorandom number generators", OOPSLA 2014).
//!
//! Never for secrets.

#[cfg(test)]
mod tests;

/// Draws numbers that depend on the seed alone.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The golden ratio in 64 bits: the step of the sequence.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// A sequence of its own for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A sequence of its own for each pair, so that the numbers of one record do not depend on those of another.
    #[must_use]
    pub fn for_record(seed: u64, index: u64) -> Random {
        Random { state: mix(seed.wrapping_add(STEP)) ^ mix(index.wrapping_mul(STEP).wrapping_add(1)) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `bound`, each equally likely (up to 2^-64 of a bias); 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the upper half of 128 bits has 64")
    }

    /// A number from 0 to 1, 1 excluded.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
