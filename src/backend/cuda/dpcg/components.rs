//! Components of a matrix on the device (kernels/dpcg/components.cuh). The host knows their sizes, the device which one
//! a cell is in.

use super::arrays::lists;
use super::source::Source;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, CHUNK, CellComponent, CellComponentArgs, ScanArgs};
use crate::error::{Result, collected, zeroed};
use crate::grid::cell_components::ComponentList;
use crate::grid::cells::Cells;

/// For errors.
const COMPONENTS: &str = "components";

/// Those of the matrix that was surveyed last.
pub struct Components {
    of: Cells,
    /// Numbers of cells, and where those of chunks begin; and what is known of each component. From when there are
    /// several.
    memory: [Option<Memory>; 2],
    /// Components that the second one has room for.
    room: usize,
    arguments: CellComponentArgs,
    size: Vec<usize>,
    singular: Vec<bool>,
}

impl Components {
    /// Of the matrix of `source`; `root`: of each cell, once it is surveyed.
    pub fn new(source: &Source, root: Address) -> Self {
        let arguments = CellComponentArgs { cells: source.cells, m: source.m, root, ..CellComponentArgs::default() };
        Self { of: source.of, memory: [None, None], room: 0, arguments, size: Vec::new(), singular: Vec::new() }
    }

    /// All cells are one.
    pub fn set_whole(&mut self, singular: bool) -> Result<()> {
        self.size = collected([self.of.count()], COMPONENTS)?;
        self.singular = collected([singular], COMPONENTS)?;
        Ok(())
    }

    /// Numbers so many components, in the order of their first cells. Returns those of the singular ones.
    pub fn number(&mut self, stream: &Stream, count: usize, zero_row_sum: f64) -> Result<Vec<usize>> {
        let (n, chunks) = (self.of.count(), self.of.count().div_ceil(CHUNK as usize));
        if self.memory[0].is_none() {
            let (memory, [number, chunk_start]) = lists(stream, [4 * n, 4 * (chunks + 1)], COMPONENTS)?;
            self.memory[0] = Some(memory);
            (self.arguments.number, self.arguments.chunk_start) = (number, chunk_start);
        }
        if self.room < count.max(1) {
            (self.memory[1], self.room) = (None, 0);
            let room = count.max(1).next_power_of_two();
            let sizes = [size_of::<CellComponent>() * room, 4 * room];
            let (memory, [components, singular]) = lists(stream, sizes, COMPONENTS)?;
            (self.memory[1], self.room) = (Some(memory), room);
            (self.arguments.components, self.arguments.singular) = (components, singular);
        }
        let a = CellComponentArgs { zero_row_sum, ..self.arguments };
        stream.fill(a.number, u8::MAX, 4 * n)?;
        launch::list_components(stream, &CellComponentArgs { components: 0, ..a })?;
        launch::scan(stream, &ScanArgs { values: a.chunk_start, count: chunks as i64, arrays: 1 })?;
        launch::list_components(stream, &a)?;
        launch::number_components(stream, &a)?;
        let mut found: Vec<CellComponent> = zeroed(count, COMPONENTS)?;
        stream.fetch(&mut found, a.components)?;
        stream.wait()?;
        self.arguments = a;
        self.size = collected(found.iter().map(|component| component.cells as usize), COMPONENTS)?;
        self.singular = collected(found.iter().map(|component| component.regular == 0), COMPONENTS)?;
        let singular = found.iter().filter(|component| component.regular == 0);
        collected(singular.map(|component| component.first as usize), COMPONENTS)
    }

    /// What the host knows of them.
    pub fn list(&self) -> ComponentList<'_> {
        ComponentList { size: &self.size, singular: &self.singular }
    }

    /// Whether all cells are one.
    pub fn is_whole(&self) -> bool {
        self.size[..] == [self.of.count()]
    }

    /// Row sums within this part of the center were none, where there are several.
    pub fn zero_row_sum(&self) -> f64 {
        self.arguments.zero_row_sum
    }

    /// The number of each cell's, all ones where it has none; 0: all cells are of one.
    pub fn of_cells(&self) -> Address {
        if self.is_whole() { 0 } else { self.arguments.number }
    }

    /// Number of each cell's among the singular ones, in 32 bits, and of the other cells how many there are.
    pub fn label_singular(&self, stream: &Stream, labels: Address) -> Result<()> {
        let list = self.list();
        let none = list.singular_count();
        let numbers = list.singular_numbers()?;
        let number = |number: Option<usize>| number.unwrap_or(none) as u32;
        stream.send(self.arguments.singular, &collected(numbers.into_iter().map(number), COMPONENTS)?)?;
        stream.wait()?;
        launch::label_singular(stream, &CellComponentArgs { labels, none: none as u32, ..self.arguments })
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.iter().flatten().map(|memory| memory.bytes).sum()
    }
}
