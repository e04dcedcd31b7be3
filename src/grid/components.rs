//! Connected components of the matrix graph, and which of them are singular with the constant vector as
//! null space: a component is singular iff |row sum| <= tolerance * center in all its rows.

use super::levels::Grid;
use super::stencil::StencilView;
use crate::error::{Result, reset, zeroed};

/// Row sums below this part of the center count as zero (`null_space = auto`).
pub const ZERO_ROW_SUM: f64 = 1e-12;
/// The same where the caller asserts a constant null space (`null_space = constant`).
pub const ASSERTED_ZERO_ROW_SUM: f64 = 1e-6;

/// Components of at least two nodes. A lone node (land) has no couplings and belongs to none.
#[derive(Clone, Debug, Default)]
pub struct Components {
    /// Per node, row by row: 0 for regular nodes, q for nodes of singular component q = 1, 2, ...
    /// Empty where nothing is singular.
    pub singular_label: Vec<u32>,
    /// First node (i, j) of each singular component.
    pub first_node: Vec<(usize, usize)>,
    /// Nodes of each singular component.
    pub size: Vec<usize>,
    /// Components, singular or not.
    pub count: usize,
    projected: bool,
    /// All nodes are one singular component: no labels are kept.
    whole: bool,
    parent: Vec<u32>,
    coupled: Vec<bool>,
    row: Vec<f64>,
}

impl Components {
    /// Singular components whose constants are projected out.
    pub fn singular(&self) -> usize {
        if self.projected { self.size.len() } else { 0 }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        4 * (self.singular_label.capacity() + self.parent.len()) + self.coupled.len() + 8 * self.row.len()
    }

    /// Whether a vanishing last pivot at node (i, j) is no defect: not on a singular component that nobody
    /// projects.
    pub fn may_float(&self, nx: usize, i: usize, j: usize) -> bool {
        self.projected || self.singular_of(nx, i, j).is_none()
    }

    /// Singular component of node (i, j), counted from 0.
    pub fn singular_of(&self, nx: usize, i: usize, j: usize) -> Option<usize> {
        match self.singular_label.get(j * nx + i) {
            _ if self.whole => Some(0),
            None | Some(0) => None,
            Some(&q) => Some(q as usize - 1),
        }
    }

    /// Finds the components of `a`; `project`: constants on the singular ones are to be projected out.
    /// Memory is kept from call to call.
    pub fn find(&mut self, a: &StencilView, tolerance: f64, project: bool) -> Result<()> {
        self.projected = project;
        self.whole = false;
        let (nx, ny) = (a.grid.nx, a.grid.ny);
        let n = nx * ny;
        if self.parent.len() != n {
            self.parent = zeroed(n, "component labels")?;
            self.coupled = zeroed(n, "component flags")?;
            self.row = zeroed(nx, "a row of sums")?;
        }
        self.unite(a);

        // Per root: bit 0 set by a row with a nonzero sum. Labels reuse the array once roots are final.
        reset(&mut self.singular_label, n, "component labels")?;
        let regular = 1u32;
        let mut sum = std::mem::take(&mut self.row);
        for j in 0..ny {
            sum.copy_from_slice(a.center.row(j));
            a.add_couplings(j, &mut sum);
            for (i, (s, c)) in sum.iter().zip(a.center.row(j)).enumerate() {
                if s.abs() > tolerance * c {
                    let root = self.root((j * nx + i) as u32) as usize;
                    self.singular_label[root] = regular;
                }
            }
        }
        // Number the singular roots in order of their first node; lone nodes are their own roots.
        self.row = sum;
        self.number_roots(nx);
        Ok(())
    }

    /// All nodes of `grid` are one component, as somebody else has found out.
    pub fn set_whole(&mut self, grid: Grid, singular: bool, project: bool) {
        let lone = grid.nodes() == 1;
        self.projected = project;
        self.whole = singular && !lone;
        self.count = usize::from(!lone);
        self.singular_label.clear();
        self.first_node.clear();
        self.size.clear();
        if self.whole {
            self.first_node.push((0, 0));
            self.size.push(grid.nodes());
        }
    }

    /// Labels of the nodes whose last pivot must not vanish: those of singular components that nobody projects.
    pub fn labels_to_refuse(&self, nodes: usize) -> Option<Vec<u32>> {
        if self.projected || self.size.is_empty() {
            return None;
        }
        Some(if self.whole { vec![1; nodes] } else { self.singular_label.clone() })
    }

    fn number_roots(&mut self, nx: usize) {
        let n = self.parent.len();
        self.count = 0;
        self.first_node.clear();
        self.size.clear();
        self.coupled.fill(false);
        for k in 0..n {
            let root = self.root(k as u32) as usize;
            if root != k {
                self.coupled[root] = true;
            }
        }
        // Roots are the smallest node of their component, so they come first in this sweep.
        for k in 0..n {
            let root = self.root(k as u32) as usize;
            if root == k {
                let regular = std::mem::take(&mut self.singular_label[k]) == 1;
                if self.coupled[k] {
                    self.count += 1;
                    if !regular {
                        self.first_node.push((k % nx, k / nx));
                        self.size.push(1);
                        self.singular_label[k] = self.size.len() as u32;
                    }
                }
            } else {
                let label = self.singular_label[root];
                self.singular_label[k] = label;
                if label > 0 {
                    self.size[label as usize - 1] += 1;
                }
            }
        }
        if self.size.is_empty() {
            self.singular_label.clear();
        }
    }

    /// Union of the two ends of every nonzero coupling; the smaller root wins.
    fn unite(&mut self, a: &StencilView) {
        let nx = a.grid.nx;
        for (k, p) in self.parent.iter_mut().enumerate() {
            *p = k as u32;
        }
        for j in 0..a.grid.ny {
            for (i, &c) in a.east_row(j).iter().enumerate() {
                self.join(c, j * nx + i, j * nx + i + 1);
            }
            for (i, &c) in a.north_row(j).iter().enumerate() {
                self.join(c, j * nx + i, (j + 1) * nx + i);
            }
            for (i, &c) in a.northeast_row(j).iter().enumerate() {
                self.join(c, j * nx + i, (j + 1) * nx + i + 1);
            }
            for (i, &c) in a.northwest_row(j).iter().enumerate() {
                self.join(c, j * nx + i + 1, (j + 1) * nx + i);
            }
        }
    }

    fn join(&mut self, coupling: f64, k: usize, l: usize) {
        if coupling != 0.0 {
            let (a, b) = (self.root(k as u32), self.root(l as u32));
            self.parent[a.max(b) as usize] = a.min(b);
        }
    }

    fn root(&mut self, mut k: u32) -> u32 {
        while self.parent[k as usize] != k {
            let up = self.parent[self.parent[k as usize] as usize];
            self.parent[k as usize] = up;
            k = up;
        }
        k
    }
}

#[cfg(test)]
mod tests {
    use super::super::{levels::Grid, stencil::View};
    use super::*;

    fn components(nx: usize, ny: usize, center: &[f64], east: &[f64], north: &[f64]) -> Components {
        let grid = Grid { nx, ny };
        let v = |name, a| View::new(name, a, grid, nx);
        let a = StencilView {
            grid,
            center: v("center", center),
            east: v("east", east),
            north: v("north", north),
            corners: None,
        };
        let mut c = Components::default();
        c.find(&a, ZERO_ROW_SUM, true).unwrap();
        c
    }

    #[test]
    fn two_basins_and_land() {
        // x-x . x-x : the left pair is singular, the right one has an excess, the middle is land.
        let c = components(5, 1, &[1., 1., 3., 1., 1.5], &[-1., 0., 0., -1., f64::NAN], &[f64::NAN; 5]);
        assert_eq!((c.count, c.singular()), (2, 1));
        assert_eq!(c.singular_label, [1, 1, 0, 0, 0]);
        assert_eq!((c.first_node[0], c.size[0]), ((0, 0), 2));
    }

    #[test]
    fn nothing_singular_keeps_no_labels() {
        let c = components(2, 2, &[4.0; 4], &[-1.0; 4], &[-1.0; 4]);
        assert_eq!((c.count, c.singular()), (1, 0));
        assert!(c.singular_label.is_empty());
        assert_eq!(c.singular_of(2, 1, 1), None);
    }

    #[test]
    fn a_spiral_is_one_component() {
        // Couplings run along a U: the two arms meet only in the last row.
        let (nx, ny) = (3, 3);
        let mut center = vec![2.0; 9];
        let north = [-1.0, 0.0, -1.0, -1.0, 0.0, -1.0, 0.0, 0.0, 0.0];
        let east = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -1.0, 0.0];
        center[0] = 1.0;
        center[2] = 1.0;
        let c = components(nx, ny, &center, &east, &north);
        assert_eq!((c.count, c.singular()), (1, 1));
        assert_eq!(c.size[0], 7);
    }
}
