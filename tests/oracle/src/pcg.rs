//! PCG from zero, on P A x = P b with deflation.

use crate::{System, dot};

/// Deflation with P = I - A Z E^-1 Z^T and E = Z^T A Z (Tang, Nabben, Vuik and Erlangga 2009). E must be regular.
pub struct Deflation {
    /// Number of the deflation vector of each cell, if any.
    vector: Vec<Option<usize>>,
    /// E^-1, row by row.
    inverse: Vec<Vec<f64>>,
}

impl Deflation {
    /// Computes E^-1 for vectors that are one on the cells with their number.
    pub fn new(system: &System, vector: Vec<Option<usize>>) -> Self {
        let count = vector.iter().flatten().max().map_or(0, |last| last + 1);
        let mut of = Self { vector, inverse: vec![Vec::new(); count] };
        let unit = |k: usize| (0..count).map(|l| f64::from(u8::from(k == l))).collect::<Vec<f64>>();
        let rows = (0..count).map(|k| of.restricted(&system.multiply(&of.prolonged(&unit(k))))).collect();
        of.inverse = inverse(rows);
        of
    }

    /// Groups two or more cells that strong couplings connect, and computes E^-1 with a vector for each group. A
    /// coupling is strong if it exceeds `strong` times the smallest coupling of its direction. The heavy phase has no
    /// vector, so E is regular even if the system is singular.
    pub fn of_groups(system: &System, strong: f64) -> Self {
        let n = system.count();
        let mut joined = vec![Vec::new(); n];
        for (step, a) in system.steps().into_iter().zip(&system.forward) {
            let weakest = a.iter().filter(|c| **c != 0.0).fold(f64::INFINITY, |weakest, c| weakest.min(-c));
            for p in (0..n).filter(|&p| -a[p] > strong * weakest) {
                joined[p].push(p + step);
                joined[p + step].push(p);
            }
        }
        let (mut vector, mut vectors) = (vec![None; n], 0);
        for first in 0..n {
            if vector[first].is_some() || joined[first].is_empty() {
                continue;
            }
            let mut stack = vec![first];
            while let Some(p) = stack.pop() {
                if vector[p].replace(vectors).is_none() {
                    stack.extend(&joined[p]);
                }
            }
            vectors += 1;
        }
        Self::new(system, vector)
    }

    /// Returns Z^T v.
    fn restricted(&self, v: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.inverse.len()];
        self.vector.iter().zip(v).filter_map(|(k, v)| Some((k.as_ref()?, v))).for_each(|(&k, v)| sums[k] += v);
        sums
    }

    /// Returns Z t.
    fn prolonged(&self, t: &[f64]) -> Vec<f64> {
        self.vector.iter().map(|k| k.map_or(0.0, |k| t[k])).collect()
    }

    /// Returns Z E^-1 Z^T v.
    fn coarse(&self, v: &[f64]) -> Vec<f64> {
        let g = self.restricted(v);
        self.prolonged(&self.inverse.iter().map(|row| dot(row, &g)).collect::<Vec<f64>>())
    }

    /// Computes v = P v.
    fn project(&self, system: &System, v: &mut [f64]) {
        let correction = system.multiply(&self.coarse(v));
        v.iter_mut().zip(correction).for_each(|(v, correction)| *v -= correction);
    }
}

/// Returns the inverse of a symmetric positive definite matrix by Gauss-Jordan elimination.
fn inverse(mut a: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for k in 0..a.len() {
        let pivot = 1.0 / std::mem::replace(&mut a[k][k], 1.0);
        a[k].iter_mut().for_each(|a| *a *= pivot);
        let row = a[k].clone();
        for (_, other) in a.iter_mut().enumerate().filter(|(i, _)| *i != k) {
            let factor = std::mem::replace(&mut other[k], 0.0);
            other.iter_mut().zip(&row).for_each(|(a, row)| *a -= factor * row);
        }
    }
    a
}

/// Executes PCG until |r| <= tol |b|, in at most `most` iterations. `precondition(r, z)` computes z = M^-1 r. Returns
/// the solution and the number of iterations, `most + 1` without convergence.
pub fn pcg(
    system: &System,
    precondition: &mut dyn FnMut(&[f64], &mut [f64]),
    deflation: Option<&Deflation>,
    b: &[f64],
    (tol, most): (f64, usize),
) -> (Vec<f64>, usize) {
    let n = b.len();
    let project = |v: &mut [f64]| {
        if let Some(deflation) = deflation {
            deflation.project(system, v);
        }
    };
    let (mut x, mut r, mut z) = (vec![0.0; n], b.to_vec(), vec![0.0; n]);
    project(&mut r);
    precondition(&r, &mut z);
    let mut p = z.clone();
    let mut rho = dot(&r, &z);
    let goal = tol * dot(b, b).sqrt();
    let mut iterations = most + 1;
    for iteration in 1..=most {
        let mut q = system.multiply(&p);
        project(&mut q);
        let alpha = rho / dot(&p, &q);
        x.iter_mut().zip(&p).for_each(|(x, p)| *x += alpha * p);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        if dot(&r, &r).sqrt() <= goal {
            iterations = iteration;
            break;
        }
        precondition(&r, &mut z);
        let next = dot(&r, &z);
        let beta = next / rho;
        rho = next;
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + beta * *p);
    }
    if let Some(deflation) = deflation {
        let rest: Vec<f64> = b.iter().zip(system.multiply(&x)).map(|(b, ax)| b - ax).collect();
        x.iter_mut().zip(deflation.coarse(&rest)).for_each(|(x, coarse)| *x += coarse);
    }
    (x, iterations)
}
