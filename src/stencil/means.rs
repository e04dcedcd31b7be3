//! Sums and means of vectors over singular components.

use crate::error::{Result, reset};

/// Components of the values of a vector, and workspace for sums over the components.
#[derive(Default)]
pub struct Singular {
    /// Component + 1 of each value; 0: none. Empty if there are no singular components.
    label: Vec<u32>,
    sum: Vec<f64>,
    magnitude: Vec<f64>,
    count: Vec<f64>,
    kept_mean: Vec<f64>,
}

impl Singular {
    /// Prepares for vectors with `values` values. Sets all labels to 0 and returns them, so that the caller can set
    /// them.
    pub fn reset(&mut self, components: usize, values: usize) -> Result<&mut [u32]> {
        for v in [&mut self.sum, &mut self.magnitude, &mut self.count, &mut self.kept_mean] {
            reset(v, components, "sums over components")?;
        }
        reset(&mut self.label, if components > 0 { values } else { 0 }, "component labels")?;
        Ok(&mut self.label)
    }

    /// Returns (component, index) for those indices in `places` whose value belongs to a component.
    fn labelled<'a>(
        label: &'a [u32],
        places: impl Iterator<Item = usize> + 'a,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        places.filter_map(move |c| Some(((*label.get(c)? as usize).checked_sub(1)?, c)))
    }

    /// Computes for each component the sum of v, the sum of |v|, and the number of values.
    fn sums(&mut self, places: impl Iterator<Item = usize>, v: &[f64]) {
        for sums in [&mut self.sum, &mut self.magnitude, &mut self.count] {
            sums.fill(0.0);
        }
        for (k, c) in Self::labelled(&self.label, places) {
            self.sum[k] += v[c];
            self.magnitude[k] += v[c].abs();
            self.count[k] += 1.0;
        }
    }

    /// Subtracts from v its mean on each component. With `restore`, then adds the mean stored by `keep_means`.
    pub fn shift(&mut self, places: impl Iterator<Item = usize> + Clone, v: &mut [f64], restore: bool) {
        self.sums(places.clone(), v);
        for (k, c) in Self::labelled(&self.label, places) {
            let target = if restore { self.kept_mean[k] } else { 0.0 };
            v[c] += target - self.sum[k] / self.count[k];
        }
    }

    /// Stores the mean of v on each component, for `shift`.
    pub fn keep_means(&mut self, places: impl Iterator<Item = usize>, v: &[f64]) {
        self.sums(places, v);
        for (kept, (sum, count)) in self.kept_mean.iter_mut().zip(self.sum.iter().zip(&self.count)) {
            *kept = sum / count;
        }
    }

    /// Returns the component with the largest |sum v| / sum |v|, and these two sums.
    pub fn worst(&mut self, places: impl Iterator<Item = usize>, v: &[f64]) -> (usize, f64, f64) {
        self.sums(places, v);
        let ratio = |k: usize| self.sum[k].abs() / self.magnitude[k].max(f64::MIN_POSITIVE);
        let worst = (0..self.sum.len()).fold(0, |w, k| if ratio(k) > ratio(w) { k } else { w });
        (worst, self.sum[worst], self.magnitude[worst])
    }

    /// Computes the sum of mean(v)^2 / center over all values that belong to a component.
    pub fn square_of_means(&mut self, places: impl Iterator<Item = usize> + Clone, v: &[f64], center: &[f64]) -> f64 {
        self.sums(places.clone(), v);
        let mean = |k: usize| self.sum[k] / self.count[k];
        Self::labelled(&self.label, places).map(|(k, c)| mean(k) * mean(k) / center[c]).sum()
    }

    pub fn bytes(&self) -> usize {
        4 * self.label.len()
    }
}
