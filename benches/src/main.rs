fn main() {
    use rrbsolver_benches::iccg::*;
    let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let (a, b) = rrbsolver_problems::find("poisson_f", n, n).unwrap();
    for pivots in [Pivots::Modified, Pivots::Incomplete] {
        let t = std::time::Instant::now();
        let mut s = Iccg::factorize(&a, pivots).unwrap();
        let t1 = t.elapsed().as_secs_f64();
        let mut x = vec![0.0; b.len()];
        let end = s.solve(&b, &mut x, 1e-6, 10000);
        let t2 = t.elapsed().as_secs_f64() - t1;
        println!("{end:?} setup {t1} solve {t2} per it {}", t2 / end.iterations as f64);
        if n > 1100 { break }
    }
}
