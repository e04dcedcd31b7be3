//! Rows of the whole grid: of each rank its own, to which values come by messages, or, where all ranks are processes of
//! one host and the first one works for all, in memory that all have, where each writes its boxes and reads them.

use super::{Comm, Gather, Largest};
use crate::error::{Result, collected};
use crate::runtime::heap::Counted;
use crate::runtime::processes::{Mapped, Told, host_number};

/// For errors.
const ROWS: &str = "rows of all ranks";

/// Rows of some arrays.
pub enum Rows {
    /// Of this rank.
    Own(Vec<Vec<f64>>),
    /// Of all ranks, which write and read them between two collective calls.
    OfAll(OfAll),
}

/// Some arrays of `len` values each, from value `start` on, and those that this rank works on.
#[derive(Clone)]
pub struct OfAll {
    memory: Counted<Mapped>,
    start: usize,
    len: usize,
    arrays: usize,
    works: bool,
}

/// Of a matrix with 9 points.
pub const MOST_ARRAYS: usize = 5;

/// Numbers by which ranks find the memory of the first one.
const WORDS: usize = 4;

/// A plan for the search of [`of_all`].
pub fn search(comm: &Counted<Comm>) -> Result<Gather> {
    Gather::new(comm, &collected((0..comm.size()).map(|rank| if rank == 0 { WORDS } else { 0 }), ROWS)?)
}

/// Memory for so many arrays of `len` values that all ranks can reach, in two parts; none where they are not all on one
/// host. Collective: no rank leaves it alone.
pub fn of_all(
    comm: &Comm,
    gather: &mut Gather,
    agree: &mut Largest,
    arrays: [usize; 2],
    len: usize,
) -> Result<Option<[OfAll; 2]>> {
    let first = comm.rank() == 0;
    let values = len.saturating_mul(arrays[0] + arrays[1]);
    let own = if first { Mapped::new(values).ok() } else { None };
    let told = own.as_ref().map_or([0; 3], |own| {
        let Told { process, file, sign } = own.told();
        [process, file, sign]
    });
    let words = gather.run(|to| {
        if first {
            let host = if own.is_some() { host_number() } else { 0 };
            to.iter_mut().zip([host, told[0], told[1], told[2]]).for_each(|(to, word)| *to = f64::from_bits(word));
        }
    })?;
    let [host, process, file, sign] = std::array::from_fn(|k| words[k].to_bits());
    let is_here = host != 0 && host == host_number();
    let memory = match own {
        Some(own) => Some(own).filter(|_| is_here),
        None if is_here => Mapped::open(&Told { process, file, sign }, values).ok(),
        None => None,
    };
    let memory = memory.and_then(|memory| Counted::new(memory, ROWS).ok());
    if agree.run(&[f64::from(u8::from(memory.is_none())), 0.0])?[0] > 0.0 {
        return Ok(None);
    }
    let part =
        |memory: &Counted<Mapped>, start, arrays| OfAll { memory: memory.clone(), start, len, arrays, works: first };
    Ok(memory.map(|memory| [part(&memory, 0, arrays[0]), part(&memory, arrays[0] * len, arrays[1])]))
}

impl Rows {
    pub const NONE: Self = Self::Own(Vec::new());

    /// Those of an array that this rank works on.
    pub fn array(&self, k: usize) -> &[f64] {
        match self {
            Self::Own(arrays) => &arrays[k],
            // SAFETY: others write between two collective calls alone, in which this rank holds no slice.
            Self::OfAll(of_all) => unsafe { of_all.memory.slice(of_all.start + k * of_all.len, of_all.own_len()) },
        }
    }

    /// The same of all, to write; empty ones after them.
    pub fn arrays_mut(&mut self) -> [&mut [f64]; MOST_ARRAYS] {
        let mut all: [&mut [f64]; MOST_ARRAYS] = Default::default();
        match self {
            Self::Own(arrays) => all.iter_mut().zip(arrays).for_each(|(to, rows)| *to = rows),
            // SAFETY: arrays lie apart; else as in `array`.
            Self::OfAll(of_all) => all.iter_mut().take(of_all.arrays).enumerate().for_each(|(k, to)| unsafe {
                *to = of_all.memory.slice_mut(of_all.start + k * of_all.len, of_all.own_len());
            }),
        }
        all
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Own(arrays) => arrays.iter().map(|rows| 8 * rows.capacity()).sum(),
            Self::OfAll(of_all) => 8 * of_all.arrays * of_all.own_len(),
        }
    }
}

impl OfAll {
    fn own_len(&self) -> usize {
        if self.works { self.len } else { 0 }
    }

    /// Writes values of a box of this rank into array k.
    pub fn put(&self, k: usize, at: usize, values: &[f64]) {
        assert!(k < self.arrays && at + values.len() <= self.len);
        // SAFETY: boxes are disjoint, and between two collective calls the first rank touches none of them.
        unsafe { self.memory.slice_mut(self.start + k * self.len + at, values.len()) }.copy_from_slice(values);
    }

    /// Reads values of a box of this rank.
    pub fn get(&self, k: usize, at: usize, values: &mut [f64]) {
        assert!(k < self.arrays && at + values.len() <= self.len);
        // SAFETY: as in `put`.
        values.copy_from_slice(unsafe { self.memory.slice(self.start + k * self.len + at, values.len()) });
    }
}
