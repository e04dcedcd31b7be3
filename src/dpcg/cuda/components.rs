//! Connected components of a matrix on the device (kernels/dpcg/components.cuh). The host stores the sizes of the
//! components, and the device stores the component of each cell.

use super::source::DeviceMatrix;
use crate::cuda::arrays::{Pool, allocate_lists};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::labelled::Labelled;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CHUNK_CELLS, CellComponent, CellComponentArgs, CellLabels, ScanArgs};
use crate::error::{Result, collected, zeroed};
use crate::stencil::cell_components::ComponentList;
use crate::stencil::cells::Cells;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "components";

/// Components of the matrix that was inspected last.
pub struct Components {
    extents: Cells,
    /// Memory of the data per cell (component of each cell, first component of each chunk of `CHUNK_CELLS` cells), and
    /// memory of the data per component. Allocated for the first matrix whose cells are not all in one component.
    memory: [Option<Memory>; 2],
    /// Number of components for which memory is allocated.
    component_capacity: usize,
    component_args: CellComponentArgs,
    component_sizes: Vec<usize>,
    is_singular: Vec<bool>,
}

impl Components {
    /// Describes the components of the matrix of `source`. `root` is the address of an array with one entry per cell:
    /// the first cell of the component of this cell. The inspection computes this array.
    pub fn new(source: &DeviceMatrix, root: Address) -> Self {
        let component_args =
            CellComponentArgs { cells: source.cells, m: source.m, root, ..CellComponentArgs::default() };
        Self {
            extents: source.extents,
            memory: [None, None],
            component_capacity: 0,
            component_args,
            component_sizes: Vec::new(),
            is_singular: Vec::new(),
        }
    }

    /// Records that all cells belong to one component, and whether this component is singular.
    pub fn set_single_component(&mut self, is_singular: bool) -> Result<()> {
        self.component_sizes = collected([self.extents.count()], ALLOCATION_NAME)?;
        self.is_singular = collected([is_singular], ALLOCATION_NAME)?;
        Ok(())
    }

    /// Numbers `count` components in the order of their first cells. Returns the first cells of the singular
    /// components.
    pub fn number_components(&mut self, stream: &Stream, count: usize, zero_row_sum: f64) -> Result<Vec<usize>> {
        let (n, chunk_count) = (self.extents.count(), self.extents.count().div_ceil(CHUNK_CELLS as usize));
        if self.memory[0].is_none() {
            let (memory, [number, chunk_start]) =
                allocate_lists(stream, [4 * n, 4 * (chunk_count + 1)], ALLOCATION_NAME)?;
            self.memory[0] = Some(memory);
            (self.component_args.component_of_cell, self.component_args.chunk_start) = (number, chunk_start);
        }
        if self.component_capacity < count.max(1) {
            (self.memory[1], self.component_capacity) = (None, 0);
            let capacity = count.max(1).next_power_of_two();
            let sizes = [size_of::<CellComponent>() * capacity, 4 * capacity];
            let (memory, [components, singular]) = allocate_lists(stream, sizes, ALLOCATION_NAME)?;
            (self.memory[1], self.component_capacity) = (Some(memory), capacity);
            (self.component_args.components, self.component_args.singular_number) = (components, singular);
        }
        let args = CellComponentArgs { zero_row_sum, ..self.component_args };
        stream.fill(args.component_of_cell, u8::MAX, 4 * n)?;
        launch::list_components(stream, &CellComponentArgs { components: 0, ..args })?;
        launch::scan_prefix_sums(stream, &ScanArgs { values: args.chunk_start, count: chunk_count as i64, arrays: 1 })?;
        launch::list_components(stream, &args)?;
        launch::number_components(stream, &args)?;
        let mut components: Vec<CellComponent> = zeroed(count, ALLOCATION_NAME)?;
        stream.fetch(&mut components, args.components)?;
        stream.wait()?;
        self.component_args = args;
        self.component_sizes =
            collected(components.iter().map(|component| component.cell_count as usize), ALLOCATION_NAME)?;
        self.is_singular = collected(components.iter().map(|component| component.is_regular == 0), ALLOCATION_NAME)?;
        let singular_components = components.iter().filter(|component| component.is_regular == 0);
        collected(singular_components.map(|component| component.first_cell as usize), ALLOCATION_NAME)
    }

    /// Returns the sizes of the components and which of them are singular.
    pub fn component_list(&self) -> ComponentList<'_> {
        ComponentList { size: &self.component_sizes, is_singular: &self.is_singular }
    }

    /// Returns whether all cells belong to one component.
    pub fn is_single_component(&self) -> bool {
        self.component_sizes[..] == [self.extents.count()]
    }

    /// Returns the fraction of the center below which `number_components` treated a row sum as zero.
    pub fn zero_row_sum(&self) -> f64 {
        self.component_args.zero_row_sum
    }

    /// Returns the address of the array with the component of each cell. The value of a cell in no component has all
    /// bits set. Returns 0 if all cells belong to one component.
    pub fn cell_labels(&self) -> Address {
        if self.is_single_component() { 0 } else { self.component_args.component_of_cell }
    }

    /// Stores a 32-bit label per cell at `labels`. The singular components are numbered from 0; the label of a cell is
    /// the number of its singular component. Cells in no singular component get the number of singular components as
    /// label.
    fn label_singular(&self, stream: &Stream, labels: Address) -> Result<()> {
        let components = self.component_list();
        let no_component_label = components.singular_count();
        let singular_numbers = components.singular_numbers()?;
        let label_of = |number: Option<usize>| number.unwrap_or(no_component_label) as u32;
        stream.send(
            self.component_args.singular_number,
            &collected(singular_numbers.into_iter().map(label_of), ALLOCATION_NAME)?,
        )?;
        stream.wait()?;
        launch::label_singular(
            stream,
            &CellComponentArgs { labels, regular_label: no_component_label as u32, ..self.component_args },
        )
    }

    /// Groups the cells of the singular components by component. Returns `None` if no component is singular.
    pub fn singular_cells(&self, pool: &mut Pool, stream: &Stream) -> Result<Option<Labelled>> {
        let (count, cells) = (self.component_list().singular_count(), self.extents.count());
        if count == 0 {
            return Ok(None);
        }
        if self.is_single_component() {
            return Labelled::new(pool, stream, cells, CellLabels { label_of_cell: 0, has_32_bit_labels: 0, count: 1 })
                .map(Some);
        }
        let (memory, [labels_address]) = pool.allocate_lists(stream, [4 * cells], ALLOCATION_NAME)?;
        self.label_singular(stream, labels_address)?;
        let labels = CellLabels { label_of_cell: labels_address, has_32_bit_labels: 1, count: count as u32 };
        Labelled::new(pool, stream, cells, labels).map(|labelled| Some(labelled.with_label_memory(memory)))
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.iter().flatten().map(|memory| memory.bytes).sum()
    }
}
