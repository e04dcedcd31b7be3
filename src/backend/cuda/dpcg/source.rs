//! The matrix on the device.

use super::arrays::{Padded, box_of};
use super::labelled::check_numbers;
use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch::{CellBox, CellMatrix};
use crate::backend::cuda::staging::{Copies, Job};
use crate::backend::steps::dpcg::Setup;
use crate::error::Result;
use crate::grid::cell_components::CellComponents;
use crate::grid::cells::{Cells, SevenPoints};
use crate::grid::regions::Regions;

/// A, padded by a plane of zeros before and after each array.
pub struct Source {
    pub of: Cells,
    pub cells: CellBox,
    pub m: CellMatrix,
    arrays: Padded,
}

impl Source {
    /// Room for a matrix on so many cells.
    pub fn new(stream: &Stream, of: Cells) -> Result<Self> {
        check_numbers(of)?;
        let arrays = Padded::zeroed(stream, 4, of.count(), of.plane(), size_of::<f64>(), "the matrix")?;
        let m = CellMatrix { center: arrays.at(0), east: arrays.at(1), north: arrays.at(2), top: arrays.at(3) };
        Ok(Self { of, cells: box_of(of), m, arrays })
    }

    /// Copies it.
    pub fn send(&self, stream: &Stream, copies: &mut Copies, a: &SevenPoints) -> Result<()> {
        let [east, north, top] = a.forward;
        let CellMatrix { center, east: to_east, north: to_north, top: to_top } = self.m;
        let jobs = [(a.center, center), (east, to_east), (north, to_north), (top, to_top)];
        copies.send(stream, &jobs.map(|(values, to)| Job::all(values, to)))?;
        stream.wait()
    }

    pub fn bytes(&self) -> usize {
        self.arrays.bytes()
    }
}

/// What a factorization is made of: the matrix here and on the device, and what is known of it.
pub struct Made<'a> {
    pub a: SevenPoints<'a>,
    pub source: &'a Source,
    pub setup: &'a Setup,
    pub components: &'a CellComponents,
    pub regions: Option<&'a Regions>,
}
