//! Inspection of a matrix on the device: copies A, computes its row sums, and checks its entries. Kernels:
//! kernels/rrb/setup.cuh.

use super::source::Source;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, CopyMatrixArgs, Findings, RowSumArgs, WindowArgs};
use crate::cuda::staging::{Job, StagedCopies};
use crate::error::{Error, Location, Result, collected, push, reserve, zeroed};
use crate::rrb::anisotropy::{has_windows, percentile_90};
use crate::rrb::backend::InspectionSetup;
use crate::stencil::inspection;
use crate::stencil::inspection::Inspection;
use crate::stencil::matrix::{GridArray, StencilView};
use crate::stencil::outward::{OutwardCouplings, OutwardEntry};

/// Names of the arrays of a matrix, in the order in which kernels number them.
const ARRAY_NAMES: [&str; 5] = ["center", "east", "north", "northeast", "northwest"];

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "the list of arrays";

/// Host copies of all arrays of a matrix, for a matrix with at least one array on the device.
pub struct HostMatrix {
    arrays: Vec<Vec<f64>>,
}

impl HostMatrix {
    /// Copies all arrays of `a` to host memory. Returns `None` if all arrays of `a` already are in host memory.
    pub fn new(stream: &Stream, a: &StencilView) -> Result<Option<Self>> {
        let array_views = array_views(a)?;
        if array_views.iter().all(|v| v.device_address().is_none()) {
            return Ok(None);
        }
        let mut arrays = Vec::new();
        for view in array_views {
            let mut values: Vec<f64> = zeroed(view.count(), "a copy of the matrix")?;
            match view.device_address() {
                Some(address) => stream.fetch(&mut values, address)?,
                None => values.copy_from_slice(view.values()),
            }
            push(&mut arrays, values, ALLOCATION_NAME)?;
        }
        stream.wait()?;
        Ok(Some(Self { arrays }))
    }

    /// Returns the matrix as a view of the copies.
    pub fn view<'a>(&'a self, a: &StencilView) -> StencilView<'a> {
        let array_view = |k: usize| GridArray::new(ARRAY_NAMES[k], &self.arrays[k], a.grid, a.center.ld());
        StencilView {
            grid: a.grid,
            center: array_view(0),
            east: array_view(1),
            north: array_view(2),
            corners: a.corners.map(|_| (array_view(3), array_view(4))),
        }
    }
}

/// Returns the arrays of `a` in the order of `ARRAY_NAMES`.
fn array_views<'a>(a: &StencilView<'a>) -> Result<Vec<GridArray<'a>>> {
    let corners = a.corners.iter().flat_map(|&(ne, nw)| [ne, nw]);
    collected([a.center, a.east, a.north].into_iter().chain(corners), ALLOCATION_NAME)
}

impl Source {
    /// Copies A to the device's storage, computes its row sums and inspects it. `staging` contains the device buffer
    /// for host arrays and the state of their copies. `spare_planes` is the address of four unused planes, or 0.
    pub fn inspect_matrix(
        &mut self,
        stream: &Stream,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        staging: (Option<&Memory>, &mut StagedCopies),
        spare_planes: Address,
        inspection: &mut Inspection,
    ) -> Result<()> {
        *self.findings = Findings::NONE;
        self.has_row_sums = false;
        stream.send_prefix(self.findings_address, &self.findings, size_of::<Findings>())?;
        self.copy_matrix(stream, a, staging)?;
        self.compute_row_sums(stream, inspection_setup.checks.zero_row_sum)?;
        self.compute_window_anisotropies(stream)?;
        stream.fetch_prefix(&mut self.findings, self.findings_address, size_of::<Findings>())?;
        stream.wait()?;
        let device_findings = *self.findings;
        let nx = a.grid.nx as u64;
        if inspection_setup.checks.checks_finite && device_findings.not_finite != u64::MAX {
            let (array, i, j) = entry_of_key(device_findings.not_finite, nx);
            let view = array_views(a)?[array];
            return Err(Error::not_finite(
                ARRAY_NAMES[array],
                read_entry(stream, &view, i, j)?,
                Location::node(0, i, j),
            ));
        }
        if device_findings.bad_center != u64::MAX {
            let (i, j) = ((device_findings.bad_center % nx) as usize, (device_findings.bad_center / nx) as usize);
            let center_error = inspection::center_error(read_entry(stream, &a.center, i, j)?, i, j);
            let host_matrix = HostMatrix::new(stream, a)?;
            return Err(inspection::all_negative_error(
                &host_matrix.as_ref().map_or(*a, |matrix| matrix.view(a)),
                0..a.grid.ny,
            )
            .unwrap_or(center_error));
        }
        let findings = inspection::Findings {
            positive_couplings: device_findings.positive as usize,
            center_min: f64::from_bits(device_findings.center_min),
            center_max: f64::from_bits(device_findings.center_max),
            coupling_max: f64::from_bits(device_findings.coupling_max),
        };
        if device_findings.zero_couplings == 0 {
            return inspection.set_one_component(
                a.grid,
                findings,
                device_findings.has_nonzero_row_sum != 0,
                inspection_setup.projects_null_space,
            );
        }
        // Some couplings between neighbours are zero, as on land, so the components must be counted.
        if let Some(count) = self.count_regular_components(stream, spare_planes)? {
            inspection.set_regular(findings, count, inspection_setup.projects_null_space);
            return Ok(());
        }
        // A component is singular, or the grid is too large for `count_regular_components`. The host determines the
        // components.
        let host_matrix = HostMatrix::new(stream, a)?;
        let host_view = host_matrix.as_ref().map_or(*a, |matrix| matrix.view(a));
        inspection.start(1)?;
        inspection.inspect(0, &host_view, 0..a.grid.ny, &inspection_setup.checks);
        inspection.finish(&host_view, inspection_setup.projects_null_space)
    }

    /// Returns the couplings that point out of the grid. The couplings were counted when `a` was copied.
    pub fn outward(&self, stream: &Stream, a: &StencilView) -> Result<OutwardCouplings> {
        let (counts, first_key) = (self.findings.outward.map(|count| count as usize), self.findings.first_outward);
        if first_key == u64::MAX {
            return Ok(OutwardCouplings::default());
        }
        let (array, i, j) = entry_of_key(first_key, a.grid.nx as u64);
        let entry =
            OutwardEntry { array: array - 1, value: read_entry(stream, &array_views(a)?[array], i, j)?, i, j, k: None };
        Ok(OutwardCouplings { counts, first_entry: Some(entry), ..OutwardCouplings::default() })
    }

    /// Computes the row sums of M. The eliminations later overwrite these row sums. A row sum whose magnitude is at
    /// most `zero_row_sum` times the center becomes zero. Also determines in which patches all rows are equal
    /// (`equal_rows`).
    pub fn compute_row_sums(&mut self, stream: &Stream, zero_row_sum: f64) -> Result<()> {
        self.has_row_sums = true;
        stream.fill(self.equal_rows, 1, self.g.tiles_and_patches().1)?;
        launch::row_sums(
            stream,
            &RowSumArgs {
                g: self.g,
                m: self.m,
                row_sums: self.row_sums,
                zero_row_sum,
                nine_points: i32::from(self.shape.nine_points),
                findings: self.findings_address,
                equal_rows: self.equal_rows,
            },
        )
    }

    /// Computes the anisotropies of all windows of the grid. The function `anisotropy` reads these values.
    fn compute_window_anisotropies(&self, stream: &Stream) -> Result<()> {
        if !has_windows(self.shape.grid) {
            return Ok(());
        }
        let (nine_points, findings) = (i32::from(self.shape.nine_points), self.findings_address);
        launch::compute_anisotropy(
            stream,
            &WindowArgs { g: self.g, m: self.m, row_sums: self.row_sums, nine_points, findings },
        )
    }

    /// Returns the anisotropy of the inspected matrix: the 90th percentile, over windows of the grid, of the ratio of
    /// the two directions' conductances.
    pub fn anisotropy(&self) -> f64 {
        percentile_90(bytemuck::cast(self.findings.window))
    }

    /// Copies A to the storage by colour. Each launch copies as many rows as fit into the staging buffer.
    fn copy_matrix(
        &self,
        stream: &Stream,
        a: &StencilView,
        (staging, copies): (Option<&Memory>, &mut StagedCopies),
    ) -> Result<()> {
        let array_views = array_views(a)?;
        let (nx, ny) = (a.grid.nx, a.grid.ny);
        let host_array_count = array_views.iter().filter(|v| v.device_address().is_none()).count();
        let chunk_rows = match staging {
            Some(memory) if host_array_count > 0 => (memory.bytes / (8 * nx * host_array_count)).clamp(1, ny),
            _ => ny,
        };
        for first_row in (0..ny).step_by(chunk_rows) {
            let row_count = chunk_rows.min(ny - first_row);
            let mut arrays = [0; 5];
            let mut ld = [nx as i64; 5];
            let mut address = staging.map_or(0, |m| m.address);
            let mut jobs = Vec::new();
            reserve(&mut jobs, host_array_count, ALLOCATION_NAME)?;
            for ((array, ld), view) in arrays.iter_mut().zip(&mut ld).zip(&array_views) {
                *array = match view.device_address() {
                    Some(address) => {
                        *ld = view.ld() as i64;
                        address + 8 * (first_row * view.ld()) as u64
                    }
                    None => {
                        let values = &view.values()[first_row * view.ld()..];
                        jobs.push(Job::from_host(values, (view.ld(), nx, row_count), address));
                        let buffer_address = address;
                        address += 8 * (nx * row_count) as u64;
                        buffer_address
                    }
                };
            }
            copies.send(stream, &jobs)?;
            let [center, east, north, northeast, northwest] = arrays;
            let arguments = CopyMatrixArgs {
                g: self.g,
                m: self.m,
                center,
                east,
                north,
                northeast,
                northwest,
                ld,
                first_row: first_row as i32,
                rows: row_count as i32,
                findings: self.findings_address,
            };
            launch::copy_rrb_matrix(stream, &arguments)?;
        }
        Ok(())
    }
}

/// Returns (array, i, j), the array number, column and row, for `key` = (5 j + array) nx + i.
fn entry_of_key(key: u64, nx: u64) -> (usize, usize, usize) {
    let (i, line) = (key % nx, key / nx);
    ((line % 5) as usize, i as usize, (line / 5) as usize)
}

/// Returns entry (i, j) of an array.
fn read_entry(stream: &Stream, view: &GridArray, i: usize, j: usize) -> Result<f64> {
    match view.device_address() {
        None => Ok(view.row(j)[i]),
        Some(address) => {
            let mut value = [0.0];
            stream.fetch(&mut value, address + 8 * (j * view.ld() + i) as u64)?;
            stream.wait()?;
            Ok(value[0])
        }
    }
}
