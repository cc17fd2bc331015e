//! A part of the world that most steps leave alone: copied when written, its fingerprint computed once.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

pub struct Shared<T>(Rc<Inner<T>>);

#[derive(Clone)]
struct Inner<T> {
    value: T,
    print: Cell<Option<u64>>,
}

impl<T> Shared<T> {
    pub fn new(value: T) -> Shared<T> {
        Shared(Rc::new(Inner { value, print: Cell::new(None) }))
    }
}

impl<T: Clone> Shared<T> {
    pub fn to_mut(&mut self) -> &mut T {
        let inner = Rc::make_mut(&mut self.0);
        inner.print.set(None);
        &mut inner.value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Rc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Hash> Shared<T> {
    pub fn fingerprint(&self) -> u64 {
        self.0.print.get().unwrap_or_else(|| {
            let mut hasher = Fingerprint::default();
            self.0.value.hash(&mut hasher);
            self.0.print.set(Some(hasher.finish()));
            hasher.finish()
        })
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint());
    }
}

/// 64 bits stand for a state: at 10^7 states a collision that hides one has a chance below 10^-5.
#[derive(Default)]
pub struct Fingerprint(u64);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = u128::from(self.0.rotate_left(29) ^ value ^ 0x9E37_79B9_7F4A_7C15) * 0xA076_1D64_78BD_642F;
        self.0 = (mixed as u64).wrapping_add((mixed >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
