//! Generator of option texts, with the values that the judge needs.

use super::{Maker, NullSpace, Settings};
use crate::Stencil;

impl Maker {
    /// Returns the option text, the values that the judge needs, and the leading dimension.
    pub(super) fn options(
        &mut self,
        a: &Stencil,
        b: &[f64],
        null_space: NullSpace,
        backend: &str,
    ) -> (String, Settings, usize) {
        let backend = if backend == "emulated" { "cuda" } else { backend };
        let mut words = Vec::new();
        let precision = self.choose(&[
            (40.0, "precision=auto"),
            (30.0, "precision=f64"),
            (10.0, "precision=f32"),
            (10.0, "precision=bf16"),
            (10.0, "precision=mixed"),
        ]);
        // Devices do not support the K-cycle. Aggregation on devices has its own tests.
        let (k, aggregation) = if backend == "cuda" { (0.0, 0.0) } else { (10.0, 10.0) };
        let cycle = self.choose(&[
            (45.0 - aggregation, "cycle=auto"),
            (30.0, "cycle=v"),
            (15.0, "cycle=amli"),
            (k, "cycle=k"),
            (aggregation, "cycle=aggregation"),
        ]);
        let norm = self.choose(&[(60.0, "norm=true2"), (40.0, "norm=preconditioned")]);
        let reference = self.choose(&[(65.0, "reference=rhs"), (35.0, "reference=initial")]);
        let null_text = match null_space {
            NullSpace::Auto => "null_space=auto",
            NullSpace::None => "null_space=none",
            NullSpace::Constant => "null_space=constant",
        };
        self.hit(null_text);
        let compensation =
            self.choose(&[(75.0, "compensation=auto"), (15.0, "compensation=never"), (10.0, "compensation=always")]);
        words.extend([precision, cycle, norm, reference, null_text, compensation].map(str::to_owned));
        words.push(self.choose(&[(75.0, "lumping=m1"), (25.0, "lumping=m2")]).to_owned());
        words.push(self.choose(&[(70.0, "fusion=on"), (30.0, "fusion=off")]).to_owned());
        words.push(self.choose(&[(60.0, "threads=1"), (25.0, "threads=2"), (15.0, "threads=3")]).to_owned());
        words.push(self.levels());
        let (spacing, steps) = self.cycle_details(&mut words);
        let relaxation = self.random.among(&[(70.0, ""), (8.0, "0"), (10.0, "0.5"), (12.0, "0.95")]);
        if !relaxation.is_empty() {
            let text = ["relaxation=0", "relaxation=0.5", "relaxation=0.95"]
                .into_iter()
                .find(|t| t.ends_with(&format!("={relaxation}")));
            words.push(text.inspect(|t| self.hit(t)).expect("in the list").to_owned());
        }
        for (percent, text) in [(6.0, "grids=1"), (6.0, "grids=3"), (6.0, "compute_block=8"), (6.0, "compute_block=64")]
        {
            if self.random.chance(percent) {
                self.hit(text);
                words.push(text.to_owned());
            }
        }
        // The reference backend is slow, because it is written for clarity.
        if backend == "cpu" && a.len() <= 2000 && self.random.chance(10.0) {
            self.hit("backend=reference");
            words.push("backend=reference".to_owned());
        } else {
            words.push(format!("backend={backend}"));
        }
        let check_input = !self.random.chance(10.0);
        if !check_input {
            self.hit("check_input=0");
            words.push("check_input=0".to_owned());
        }
        let check_compatibility = self.random.chance(5.0);
        if check_compatibility {
            self.hit("check_compatibility=1");
            words.push("check_compatibility=1".to_owned());
        }
        let leading_dimension = a.nx + if self.random.chance(25.0) { self.random.whole(1, 5) } else { 0 };
        if leading_dimension > a.nx {
            self.hit("leading_dimension");
            words.push(format!("leading_dimension={leading_dimension}"));
        }
        let (rel_tol, abs_tol, max_iter) = self.tolerances(a, b, norm == "norm=preconditioned", &mut words);
        let value = |text: &'static str| text.split_once('=').expect("name and value").1;
        let settings = Settings {
            null_space,
            preconditioned: norm == "norm=preconditioned",
            of_initial: reference == "reference=initial",
            rel_tol,
            abs_tol,
            max_iter,
            precision: value(precision),
            cycle: value(cycle),
            cycle_spacing: spacing,
            cycle_steps: steps,
            compensated: compensation != "compensation=never",
            check_input,
            check_compatibility,
        };
        (words.join(" "), settings, leading_dimension)
    }

    fn levels(&mut self) -> String {
        let text = self.choose(&[
            (55.0, "levels=0"),
            (8.0, "levels=1"),
            (8.0, "levels=2"),
            (20.0, "levels: few"),
            (9.0, "levels=100"),
        ]);
        if text == "levels: few" { format!("levels={}", self.random.whole(3, 8)) } else { text.to_owned() }
    }

    fn cycle_details(&mut self, words: &mut Vec<String>) -> (usize, usize) {
        let spacing = self.random.among(&[(70.0, 0), (12.0, 2), (12.0, 4), (5.0, 6), (1.0, 3)]);
        match spacing {
            2 => self.hit("cycle_spacing=2"),
            4 => self.hit("cycle_spacing=4"),
            _ => {}
        }
        let steps = self.random.among(&[(80.0, 2), (8.0, 1), (8.0, 3), (2.0, 5), (2.0, 8)]);
        match steps {
            1 => self.hit("cycle_steps=1"),
            3 => self.hit("cycle_steps=3"),
            _ => {}
        }
        words.push(format!("cycle_spacing={spacing} cycle_steps={steps}"));
        (spacing, steps)
    }

    fn tolerances(
        &mut self,
        a: &Stencil,
        b: &[f64],
        preconditioned: bool,
        words: &mut Vec<String>,
    ) -> (f64, f64, usize) {
        const STEPS: [(f64, &str); 7] = [
            (1e-2, "rel_tol=1e-2"),
            (1e-4, "rel_tol=1e-4"),
            (1e-6, "rel_tol=1e-6"),
            (1e-8, "rel_tol=1e-8"),
            (1e-10, "rel_tol=1e-10"),
            (1e-12, "rel_tol=1e-12"),
            (1e-14, "rel_tol=1e-14"),
        ];
        let weights = [1.0, 1.0, 3.0, 2.0, 2.0, 1.0, 0.7];
        let choices: Vec<(f64, usize)> = weights.into_iter().zip(0..).collect();
        let (rel_tol, text) = STEPS[self.random.among(&choices)];
        self.hit(text);
        words.push(text.to_owned());
        let mut abs_tol = 0.0;
        if self.random.chance(8.0) {
            self.hit("abs_tol");
            // The tolerance is relative to an estimate of the tested norm of b.
            let size = b.iter().fold(0.0, |m: f64, b| m.max(b.abs()));
            let center = a.center.iter().fold(0.0, |m: f64, &c| m.max(c));
            let unit = if preconditioned { size / center.sqrt() } else { size };
            let wanted = unit * self.random.power(-9.0, -1.0);
            abs_tol = if wanted.is_normal() { wanted } else { 0.0 };
            words.push(format!("abs_tol={abs_tol:e}"));
        }
        let max_iter = match self.random.among(&[(3.0, 0), (3.0, 1), (8.0, 2), (86.0, 3)]) {
            0 => {
                self.hit("max_iter=0");
                0
            }
            1 => {
                self.hit("max_iter=1");
                1
            }
            2 => {
                self.hit("max_iter: few");
                self.random.whole(2, 12)
            }
            // A large grid with a large contrast would need too long to converge.
            _ if a.len() > 4000 => 120,
            _ => 1000,
        };
        words.push(format!("max_iter={max_iter}"));
        (rel_tol, abs_tol, max_iter)
    }
}
