//! Figures from the records of rrbsolver-bench: those of the papers' evaluation (ETNA 46, 2017, figures 5.1 to 5.6).

use anyhow::{Context as _, Result};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use rrbsolver_plot::fonts::FAMILY;

use crate::record::{Chart, Contest, Curve, Entry, GridRow, GridSweep, LevelRow, LevelSweep, Study, Suite};

/// One curve.
#[derive(Debug, PartialEq)]
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    /// Drawn thin, without dots: a bound.
    thin: bool,
}

/// One picture.
#[derive(Debug)]
struct Figure {
    /// Name of the file, without .svg.
    name: String,
    title: String,
    x: String,
    y: String,
    logarithmic: bool,
    /// Names of the places 0, 1, ... on the x axis; none: numbers.
    places: Vec<String>,
    /// Bars beside each other: places have no order.
    bars: bool,
    series: Vec<Series>,
}

/// Returns name and SVG of every figure of a study.
pub fn draw(study: &Study) -> Result<Vec<(String, String)>> {
    let figures = match study {
        Study::Levels(sweep) => of_levels(sweep),
        Study::Grids(sweep) => of_grids(sweep),
        Study::Charts(charts) => charts.iter().map(of_chart).collect(),
        Study::Suite(suite) => of_suite(suite),
        Study::Other => Vec::new(),
    };
    figures
        .iter()
        .filter(|figure| figure.series.iter().any(|s| !s.points.is_empty()))
        .map(|figure| {
            let mut svg = String::new();
            draw_into(&mut svg, figure).with_context(|| format!("drawing {}", figure.name))?;
            Ok((figure.name.clone(), svg))
        })
        .collect()
}

/// Time and iterations of the hard suite, a bar for each solver; none where it did not come to an end.
fn of_suite(suite: &Suite) -> Vec<Figure> {
    let Some(first) = suite.systems.first() else { return Vec::new() };
    let figure = |name: &str, y: &str, of: fn(&Entry) -> f64| Figure {
        name: name.to_owned(),
        title: format!("Hard systems, {} x {}", first.nx, first.ny),
        x: "system".to_owned(),
        y: y.to_owned(),
        logarithmic: true,
        places: suite.systems.iter().map(|system| system.problem.clone()).collect(),
        bars: true,
        series: (0..first.entries.len())
            .map(|k| {
                let of = |system: &Contest| system.entries.get(k).filter(|entry| entry.converged).map(of);
                let points = suite.systems.iter().enumerate();
                let points = points.filter_map(|(place, system)| Some((place as f64, of(system)?))).collect();
                Series { name: first.entries[k].name.clone(), points, thin: false }
            })
            .collect(),
    };
    vec![
        figure("suite_time", "setup and solve, ms", |entry| 1e3 * (entry.setup.median() + entry.solve.median())),
        figure("suite_iterations", "iterations", |entry| entry.iterations as f64),
    ]
}

fn of_chart(chart: &Chart) -> Figure {
    let series = |c: &Curve| Series { name: c.name.clone(), points: c.points.clone(), thin: c.name == "bandwidth" };
    Figure {
        name: chart.name.clone(),
        title: chart.title.clone(),
        x: chart.x.clone(),
        y: chart.y.clone(),
        logarithmic: chart.logarithmic,
        places: chart.places.clone(),
        bars: !chart.places.is_empty() && ["parameter set", "patches", "method", "call"].contains(&chart.x.as_str()),
        series: chart.curves.iter().map(series).collect(),
    }
}

/// The different values of a list, in the order of their first place.
fn different<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn of_levels(sweep: &LevelSweep) -> Vec<Figure> {
    let by_size = |value: fn(&LevelRow) -> f64| -> Vec<Series> {
        different(sweep.rows.iter().map(|r| r.n))
            .into_iter()
            .map(|n| Series {
                name: format!("{n} x {n}"),
                points: sweep
                    .rows
                    .iter()
                    .filter(|r| r.n == n && value(r) > 0.0)
                    .map(|r| (r.levels as f64, value(r)))
                    .collect(),
                thin: false,
            })
            .collect()
    };
    // A table of one number of levels is no curve.
    if different(sweep.rows.iter().map(|r| r.levels)).len() < 3 {
        return Vec::new();
    }
    let mut kappa = by_size(|r| r.kappa);
    let mut bound: Vec<(f64, f64)> = sweep.rows.iter().map(|r| (r.levels as f64, r.bound)).collect();
    bound.sort_by(|a, b| a.0.total_cmp(&b.0));
    bound.dedup();
    kappa.push(Series { name: "Notay's bound".to_owned(), points: bound, thin: true });
    // Beside those of the CPU.
    let on_device = sweep.rows.iter().any(|r| r.timed.copies.is_some());
    let figure = |name: &str, title: String, y: &str, logarithmic, series| Figure {
        name: format!("{name}{}", if on_device { "_device" } else { "" }),
        title: format!("{title}{}", if on_device { ", on a device" } else { "" }),
        x: "levels".to_owned(),
        y: y.to_owned(),
        logarithmic,
        places: Vec::new(),
        bars: false,
        series,
    };
    let of = |what: &str| format!("{what}, {}", sweep.problem);
    vec![
        figure("figure_5_1", of("Condition number of M^-1 A"), "kappa", true, kappa),
        figure("figure_5_2", of("Iterations to 1e-6"), "iterations", false, by_size(|r| r.iterations as f64)),
        figure("levels_time", of("Solve"), "ms", true, by_size(|r| 1e3 * r.timed.solve.median())),
    ]
}

fn of_grids(sweep: &GridSweep) -> Vec<Figure> {
    let label =
        |r: &GridRow| if r.grids == 0 { r.implementation.clone() } else { format!("{}-{}", r.implementation, r.grids) };
    // Figures 5.3 and 5.4: implementations side by side, S1, S2-1 .., S3-1 .., at the levels that all of them ran.
    let natural = |levels: usize| sweep.rows.iter().find(|r| r.implementation == "S1" && r.levels == levels);
    let compared: Vec<&GridRow> = sweep.rows.iter().filter(|r| natural(r.levels).is_some()).collect();
    let mut places: Vec<(&str, usize)> = different(compared.iter().map(|r| (r.implementation.as_str(), r.grids)));
    let order = ["S1", "S2", "S3", "S3 fused", "S4", "S4 fused"];
    places.sort_by_key(|(name, g)| (order.iter().position(|o| o == name), *g));
    let by_levels = |value: &dyn Fn(&GridRow) -> f64| -> Vec<Series> {
        different(compared.iter().map(|r| r.levels))
            .into_iter()
            .map(|levels| {
                let mut points: Vec<(f64, f64)> = compared
                    .iter()
                    .filter(|r| r.levels == levels)
                    .filter_map(|r| {
                        let place = places.iter().position(|p| *p == (r.implementation.as_str(), r.grids))?;
                        Some((place as f64, value(r)))
                    })
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Series { name: format!("{levels} levels"), points, thin: false }
            })
            .collect()
    };
    let names: Vec<String> = places
        .iter()
        .map(|place| {
            compared.iter().find(|r| (r.implementation.as_str(), r.grids) == *place).map_or(String::new(), |r| label(r))
        })
        .collect();
    // Figures 5.5 and 5.6: over levels, a curve for each g; S4, whose g is half the levels, is one curve.
    let by_grids = |value: fn(&GridRow) -> f64| -> Vec<Series> {
        let fused = || sweep.rows.iter().filter(|r| r.implementation == "S3 fused");
        let on_device = sweep.rows.iter().filter(|r| r.implementation == "S4 fused");
        let device: Vec<(f64, f64)> = on_device.map(|r| (r.levels as f64, value(r))).collect();
        let mut all = different(fused().map(|r| r.grids));
        all.sort_unstable();
        all.into_iter()
            .map(|g| Series {
                name: format!("g = {g}"),
                points: fused().filter(|r| r.grids == g).map(|r| (r.levels as f64, value(r))).collect(),
                thin: false,
            })
            .chain((!device.is_empty()).then(|| Series { name: "S4".to_owned(), points: device, thin: false }))
            .collect()
    };
    let figure = |name: &str, what: &str, x: &str, y: &str, logarithmic, places: &[String], series| Figure {
        name: name.to_owned(),
        title: format!("{what}, {}, {1} x {1}", sweep.problem, sweep.n),
        x: x.to_owned(),
        y: y.to_owned(),
        logarithmic,
        places: places.to_vec(),
        bars: false,
        series,
    };
    let with_device = sweep.rows.iter().any(|r| r.implementation == "S4 fused");
    let of_fused = |what: &str| format!("{what}, fused S3{}", if with_device { " and S4" } else { "" });
    let against_natural =
        |r: &GridRow| natural(r.levels).map_or(0.0, |s1| s1.timed.solve.median() / r.timed.solve.median());
    vec![
        figure(
            "figure_5_3",
            "Solve",
            "implementation - grids",
            "ms",
            true,
            &names,
            by_levels(&|r| 1e3 * r.timed.solve.median()),
        ),
        figure(
            "figure_5_4",
            "Times as fast as S1",
            "implementation - grids",
            "times",
            false,
            &names,
            by_levels(&against_natural),
        ),
        figure(
            "figure_5_5",
            &of_fused("Factorization"),
            "levels",
            "ms",
            false,
            &[],
            by_grids(|r| 1e3 * r.timed.setup.median()),
        ),
        figure(
            "figure_5_6",
            &of_fused("Solve"),
            "levels",
            "ms",
            false,
            &[],
            by_grids(|r| 1e3 * r.timed.solve.median()),
        ),
    ]
}

const COLOURS: [RGBColor; 8] = [
    RGBColor(0xb9, 0x3a, 0x1a),
    RGBColor(0x1f, 0x5f, 0x99),
    RGBColor(0x3a, 0x7d, 0x44),
    RGBColor(0x7a, 0x4f, 0x9a),
    RGBColor(0xa6, 0x7c, 0x00),
    RGBColor(0x2b, 0x8c, 0x9e),
    RGBColor(0xc0, 0x5a, 0x8a),
    RGBColor(0x55, 0x5b, 0x63),
];
/// Names of bars that fit beside each other.
const MOST_BESIDE: usize = 10;

const INK: RGBColor = RGBColor(45, 50, 58);

fn draw_into(svg: &mut String, figure: &Figure) -> Result<()> {
    let points = || figure.series.iter().flat_map(|s| &s.points);
    let (left, right) = points().fold((f64::MAX, f64::MIN), |(l, r), p| (l.min(p.0), r.max(p.0)));
    let (least, most) = points().fold((f64::MAX, f64::MIN), |(l, m), p| (l.min(p.1), m.max(p.1)));
    let x = if figure.places.is_empty() { left - 0.5..right + 0.5 } else { -0.5..figure.places.len() as f64 - 0.5 };
    if figure.logarithmic {
        draw_on(svg, figure, x, (0.8 * least..1.25 * most).log_scale(), 0.8 * least)
    } else {
        // Bars leave no corner to a legend.
        let room = if figure.bars { 1.3 } else { 1.08 };
        draw_on(svg, figure, x, 0.0..room * most, 0.0)
    }
}

fn draw_on<Y>(svg: &mut String, figure: &Figure, x: std::ops::Range<f64>, y: Y, bottom: f64) -> Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let canvas = SVGBackend::with_string(svg, (900, 560)).into_drawing_area();
    canvas.fill(&WHITE)?;
    let font = |size: i32| (FAMILY, size).into_font().color(&INK);
    // Many names do not fit beside each other: they stand upright.
    let is_upright = figure.bars && figure.places.len() > MOST_BESIDE;
    let mut chart = ChartBuilder::on(&canvas)
        .margin(18)
        .caption(&figure.title, font(24))
        .x_label_area_size(if is_upright { 120 } else { 50 })
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    let name = |x: &f64| {
        let whole = x.round();
        if (x - whole).abs() > 1e-6 || is_upright {
            return String::new();
        }
        if figure.places.is_empty() {
            return format!("{whole:.0}");
        }
        figure.places.get(whole as usize).cloned().unwrap_or_default()
    };
    let labels = if figure.places.is_empty() { 24 } else { 2 * figure.places.len() + 1 };
    chart
        .configure_mesh()
        .x_desc(figure.x.as_str())
        .y_desc(figure.y.as_str())
        .label_style(font(if figure.places.is_empty() { 17 } else { 13 }))
        .axis_desc_style(font(19))
        .axis_style(INK)
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.14))
        .x_labels(labels)
        .x_label_formatter(&name)
        .y_label_formatter(&|y| {
            if *y != 0.0 && y.abs() < 0.005 { format!("{y:.0e}") } else { format!("{}", (y * 1000.0).round() / 1000.0) }
        })
        .draw()?;
    if is_upright {
        let style = (FAMILY, 15).into_font().transform(FontTransform::Rotate90).color(&INK);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        for (place, name) in figure.places.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(place as f64, bottom));
            canvas.draw(&Text::new(name.as_str(), (x, y + 10), style.clone()))?;
        }
    }
    // A place is shared by the bars of all series.
    let width = 0.8 / figure.series.len().max(1) as f64;
    for (k, series) in figure.series.iter().enumerate() {
        let colour = if series.thin { INK } else { COLOURS[k % COLOURS.len()] };
        if figure.bars {
            let bar = |&(x, y): &(f64, f64)| {
                let left = x - 0.4 + k as f64 * width;
                Rectangle::new([(left, bottom), (left + 0.92 * width, y)], colour.filled())
            };
            chart
                .draw_series(series.points.iter().map(bar))?
                .label(&series.name)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 26, y + 5)], colour.filled()));
            continue;
        }
        let stroke = if series.thin { 1 } else { 3 };
        chart
            .draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(stroke)))?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 26, y)], colour.stroke_width(stroke)));
        if !series.thin {
            chart.draw_series(series.points.iter().map(|p| Circle::new(*p, 4, colour.filled())))?;
        }
    }
    if figure.series.len() > 1 {
        // Where it covers least of the curves.
        let drawn: Vec<(i32, i32)> = figure
            .series
            .iter()
            .flat_map(|s| along(&s.points, figure.bars))
            .map(|point| chart.backend_coord(&point))
            .collect();
        let position = legend_position(&drawn, figure, &chart.plotting_area().get_pixel_range());
        chart
            .configure_series_labels()
            .position(position)
            .margin(14)
            .legend_area_size(34)
            .background_style(WHITE.mix(0.9))
            .border_style(INK.mix(0.3))
            .label_font(font(17))
            .draw()?;
    }
    canvas.present()?;
    Ok(())
}

/// A curve's points and some between them; of bars all the way down.
fn along(points: &[(f64, f64)], bars: bool) -> Vec<(f64, f64)> {
    const PARTS: usize = 20;
    let part = |n: usize| n as f64 / PARTS as f64;
    if bars {
        return points.iter().flat_map(|&(x, y)| (1..=PARTS).map(move |n| (x, part(n) * y))).collect();
    }
    let between = |w: &[(f64, f64)]| {
        let ((x, y), (dx, dy)) = (w[0], (w[1].0 - w[0].0, w[1].1 - w[0].1));
        (0..=PARTS).map(move |n| (x + part(n) * dx, y + part(n) * dy)).collect::<Vec<_>>()
    };
    points.windows(2).flat_map(between).collect()
}

/// The corner, or the middle of an edge, where a legend lies over the fewest of these places.
fn legend_position(
    drawn: &[(i32, i32)],
    figure: &Figure,
    area: &(std::ops::Range<i32>, std::ops::Range<i32>),
) -> SeriesLabelPosition {
    use SeriesLabelPosition as P;
    let longest = figure.series.iter().map(|s| s.name.len()).max().unwrap_or(0) as i32;
    // Widths and heights of its letters, and margins.
    let (width, height) = (9 * longest + 64, 24 * figure.series.len() as i32 + 20);
    let (x, y) = (area.0.clone(), area.1.clone());
    let (left, right, top, low) = (x.start + 14, x.end - 14 - width, y.start + 14, y.end - 14 - height);
    let (centre, middle) = ((left + right) / 2, (top + low) / 2);
    let candidates = [
        (P::UpperLeft, left, top),
        (P::UpperRight, right, top),
        (P::LowerLeft, left, low),
        (P::LowerRight, right, low),
        (P::UpperMiddle, centre, top),
        (P::MiddleLeft, left, middle),
        (P::MiddleRight, right, middle),
        (P::LowerMiddle, centre, low),
    ];
    let covered = |&(_, left, top): &(P, i32, i32)| {
        drawn.iter().filter(|p| (left..left + width).contains(&p.0) && (top..top + height).contains(&p.1)).count()
    };
    candidates.into_iter().min_by_key(covered).map_or(P::UpperLeft, |c| c.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrbsolver_benches::commands::execute_line;

    use crate::record::parse;

    fn drawn(line: &str) -> Vec<(String, String)> {
        rrbsolver_plot::fonts::register();
        draw(&parse(&serde_json::to_string(&execute_line(line).unwrap()).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn sweeps_become_the_papers_figures() {
        let levels = drawn("levels poisson_f --sizes 31,63 -r 1");
        let grids = drawn("grids poisson_f -n 127 --levels 6,8 --fused-levels 4,6,8 -g 1,2 -r 1");
        let names: Vec<&str> = levels.iter().chain(&grids).map(|(name, _)| name.as_str()).collect();
        let expected =
            ["figure_5_1", "figure_5_2", "levels_time", "figure_5_3", "figure_5_4", "figure_5_5", "figure_5_6"];
        assert_eq!(names, expected);
        for (name, svg) in levels.iter().chain(&grids) {
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        }
        assert!(levels[0].1.contains("63 x 63") && levels[0].1.contains("bound"));
        assert!(grids[0].1.contains("S3 fused-2") && grids[2].1.contains("g = 2"));
    }

    /// Names of all systems, upright below bars of their own.
    #[test]
    fn a_suite_becomes_bars() {
        let figures = drawn("suite -n 16 -r 1 -o cycle=aggregation");
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["suite_time", "suite_iterations"]);
        for (name, svg) in &figures {
            assert!(["stretched", "neumann_logn", "P1", "P2", "discs"].iter().all(|name| svg.contains(name)), "{name}");
            // A system each, and no label of the axis beside them.
            assert_eq!(svg.matches("rotate(90").count(), 19, "{name}");
            assert!(svg.contains("cycle=aggregation") && svg.contains("in-house MIC(0)-CG"), "{name}");
        }
    }

    /// Figures of systems that were not found have no points, so there is no picture. The names of methods stand
    /// upright.
    #[test]
    fn the_thesis_becomes_bars_and_a_curve() {
        let figures = drawn("thesis --elements 3 --entries 3000 --seconds 0.1 -r 1");
        let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        let with_threads = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        let expected = ["thesis_figure_8_4", "thesis_figure_8_6b", "thesis_figure_8_7", "thesis_break_even"];
        let drawn: Vec<&str> = expected.into_iter().filter(|name| with_threads || !name.ends_with("8_7")).collect();
        assert_eq!(names, drawn);
        assert!(figures[0].1.contains("in place of E40R0000") && figures[0].1.contains("bicgstab"));
        assert!(figures[1].1.contains("gauss_seidel, multicolour"));
    }

    #[test]
    fn one_number_of_levels_is_no_figure() {
        assert!(drawn("levels poisson_f --sizes 31 --levels 4 -r 1").is_empty());
    }
}
