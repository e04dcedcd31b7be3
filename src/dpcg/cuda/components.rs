//! Connected components of a matrix on the device (kernels/dpcg/components.cuh). The host stores the sizes, and the
//! device stores the component of each cell.

use super::source::DeviceMatrix;
use crate::cuda::arrays::{Pool, lists};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::labelled::Labelled;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CHUNK, CellComponent, CellComponentArgs, CellLabels, ScanArgs};
use crate::error::{Result, collected, zeroed};
use crate::stencil::cell_components::ComponentList;
use crate::stencil::cells::Cells;

/// Name of the memory in error messages about failed allocations.
const WHAT: &str = "components";

/// Components of the matrix that was inspected last.
pub struct Components {
    of: Cells,
    /// Memory of the data per cell (component of each cell, first component of each chunk of `CHUNK` cells), and memory
    /// of the data per component. Allocated for the first matrix whose cells are not all in one component.
    memory: [Option<Memory>; 2],
    /// Number of components for which memory is allocated.
    room: usize,
    arguments: CellComponentArgs,
    size: Vec<usize>,
    singular: Vec<bool>,
}

impl Components {
    /// Describes the matrix of `source`. `root`: address of each cell's root, which the inspection computes.
    pub fn new(source: &DeviceMatrix, root: Address) -> Self {
        let arguments = CellComponentArgs { cells: source.cells, m: source.m, root, ..CellComponentArgs::default() };
        Self { of: source.of, memory: [None, None], room: 0, arguments, size: Vec::new(), singular: Vec::new() }
    }

    /// Records that all cells belong to one component, and whether it is singular.
    pub fn set_whole(&mut self, singular: bool) -> Result<()> {
        self.size = collected([self.of.count()], WHAT)?;
        self.singular = collected([singular], WHAT)?;
        Ok(())
    }

    /// Numbers `count` components in the order of their first cells. Returns the first cells of the singular
    /// components.
    pub fn number(&mut self, stream: &Stream, count: usize, zero_row_sum: f64) -> Result<Vec<usize>> {
        let (n, chunks) = (self.of.count(), self.of.count().div_ceil(CHUNK as usize));
        if self.memory[0].is_none() {
            let (memory, [number, chunk_start]) = lists(stream, [4 * n, 4 * (chunks + 1)], WHAT)?;
            self.memory[0] = Some(memory);
            (self.arguments.number, self.arguments.chunk_start) = (number, chunk_start);
        }
        if self.room < count.max(1) {
            (self.memory[1], self.room) = (None, 0);
            let room = count.max(1).next_power_of_two();
            let sizes = [size_of::<CellComponent>() * room, 4 * room];
            let (memory, [components, singular]) = lists(stream, sizes, WHAT)?;
            (self.memory[1], self.room) = (Some(memory), room);
            (self.arguments.components, self.arguments.singular) = (components, singular);
        }
        let a = CellComponentArgs { zero_row_sum, ..self.arguments };
        stream.fill(a.number, u8::MAX, 4 * n)?;
        launch::list_components(stream, &CellComponentArgs { components: 0, ..a })?;
        launch::scan(stream, &ScanArgs { values: a.chunk_start, count: chunks as i64, arrays: 1 })?;
        launch::list_components(stream, &a)?;
        launch::number_components(stream, &a)?;
        let mut found: Vec<CellComponent> = zeroed(count, WHAT)?;
        stream.fetch(&mut found, a.components)?;
        stream.wait()?;
        self.arguments = a;
        self.size = collected(found.iter().map(|component| component.cells as usize), WHAT)?;
        self.singular = collected(found.iter().map(|component| component.regular == 0), WHAT)?;
        let singular = found.iter().filter(|component| component.regular == 0);
        collected(singular.map(|component| component.first as usize), WHAT)
    }

    /// Returns the sizes of the components and which of them are singular.
    pub fn list(&self) -> ComponentList<'_> {
        ComponentList { size: &self.size, singular: &self.singular }
    }

    /// Returns whether all cells belong to one component.
    pub fn is_whole(&self) -> bool {
        self.size[..] == [self.of.count()]
    }

    /// Returns the fraction of the center below which `number` treated a row sum as zero.
    pub fn zero_row_sum(&self) -> f64 {
        self.arguments.zero_row_sum
    }

    /// Returns the address of the array with the component of each cell; a cell without component has all bits set.
    /// Returns 0 if all cells belong to one component.
    pub fn of_cells(&self) -> Address {
        if self.is_whole() { 0 } else { self.arguments.number }
    }

    /// Stores a 32-bit label per cell at `labels`: the index of its component among the singular components. Cells in
    /// no singular component get the count of singular components.
    fn label_singular(&self, stream: &Stream, labels: Address) -> Result<()> {
        let list = self.list();
        let none = list.singular_count();
        let numbers = list.singular_numbers()?;
        let number = |number: Option<usize>| number.unwrap_or(none) as u32;
        stream.send(self.arguments.singular, &collected(numbers.into_iter().map(number), WHAT)?)?;
        stream.wait()?;
        launch::label_singular(stream, &CellComponentArgs { labels, none: none as u32, ..self.arguments })
    }

    /// Lists the cells of singular components by component. Returns `None` if no component is singular.
    pub fn singular_cells(&self, pool: &mut Pool, stream: &Stream) -> Result<Option<Labelled>> {
        let (count, cells) = (self.list().singular_count(), self.of.count());
        if count == 0 {
            return Ok(None);
        }
        if self.is_whole() {
            return Labelled::new(pool, stream, cells, CellLabels { of: 0, wide: 0, count: 1 }).map(Some);
        }
        let (memory, [of]) = pool.lists(stream, [4 * cells], WHAT)?;
        self.label_singular(stream, of)?;
        let labels = CellLabels { of, wide: 1, count: count as u32 };
        Labelled::new(pool, stream, cells, labels).map(|made| Some(made.owning(memory)))
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.iter().flatten().map(|memory| memory.bytes).sum()
    }
}
