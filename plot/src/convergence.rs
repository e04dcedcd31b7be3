//! Convergence histories: relative residual against iteration, on a logarithmic scale.

use anyhow::{Context as _, Result, anyhow};
use std::path::Path;

use plotters::prelude::*;

use crate::fonts::FAMILY;

/// One curve.
pub struct History {
    /// In the legend.
    pub name: String,
    /// (iteration, relative residual)
    pub points: Vec<(f64, f64)>,
}

/// A header line, then two columns. The name comes from that of the file: convergence_rrb.csv is "RRB".
pub fn read(path: &Path) -> Result<History> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let name = match stem.strip_prefix("convergence_").unwrap_or(&stem) {
        "iccg" => "ICCG(0)".into(),
        "rrb" => "RRB".into(),
        other => other.to_string(),
    };
    let points = parse(&text).with_context(|| format!("{shown}"))?;
    Ok(History { name, points })
}

fn parse(text: &str) -> Result<Vec<(f64, f64)>> {
    let mut points = Vec::new();
    for (k, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let pair = line.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        let (iteration, residual): (f64, f64) =
            pair.with_context(|| format!("line {}: \"{line}\" is not iteration,residual", k + 1))?;
        // A residual of 0 has no place on a logarithmic scale.
        if iteration.is_finite() && residual.is_finite() && residual > 0.0 {
            points.push((iteration, residual));
        }
    }
    if points.is_empty() { Err(anyhow!("no residual to draw")) } else { Ok(points) }
}

const COLOURS: [RGBColor; 6] = [
    RGBColor(0xb9, 0x3a, 0x1a),
    RGBColor(0x1f, 0x5f, 0x99),
    RGBColor(0x3a, 0x7d, 0x44),
    RGBColor(0x7a, 0x4f, 0x9a),
    RGBColor(0xa6, 0x7c, 0x00),
    RGBColor(0x55, 0x5b, 0x63),
];
const INK: RGBColor = RGBColor(45, 50, 58);

/// The picture as SVG.
pub fn draw(histories: &[History], title: &str) -> Result<String> {
    let mut svg = String::new();
    draw_into(&mut svg, histories, title).context("drawing")?;
    Ok(svg)
}

fn draw_into(svg: &mut String, histories: &[History], title: &str) -> Result<()> {
    let points = || histories.iter().flat_map(|history| &history.points);
    let last = points().map(|p| p.0).fold(1.0, f64::max);
    let least = points().map(|p| p.1).fold(1.0, f64::min);
    let most = points().map(|p| p.1).fold(1.0, f64::max);
    // Whole decades.
    let (low, high) = (least.log10().floor() as i32, most.log10().ceil() as i32);

    let canvas = SVGBackend::with_string(svg, (900, 560)).into_drawing_area();
    canvas.fill(&WHITE)?;
    let font = |size: i32| (FAMILY, size).into_font().color(&INK);
    let mut chart = ChartBuilder::on(&canvas)
        .margin(18)
        .caption(title, font(24))
        .x_label_area_size(50)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..last * 1.04, (10f64.powi(low)..10f64.powi(high)).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("iteration")
        .y_desc("relative residual")
        .label_style(font(17))
        .axis_desc_style(font(19))
        .axis_style(INK)
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.14))
        .x_labels(12)
        .y_labels((high - low + 1).clamp(2, 16) as usize)
        .x_label_formatter(&|x| if x.fract() == 0.0 { format!("{x:.0}") } else { String::new() })
        .y_label_formatter(&|y| format!("1e{}", y.log10().round() as i32))
        .draw()?;
    for (k, history) in histories.iter().enumerate() {
        let colour = COLOURS[k % COLOURS.len()];
        let iterations = history.points.last().map_or(0.0, |p| p.0);
        chart
            .draw_series(LineSeries::new(history.points.iter().copied(), colour.stroke_width(3)))?
            .label(format!("{}: {iterations} iterations", history.name))
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 26, y)], colour.stroke_width(3)));
        chart.draw_series(history.points.iter().map(|p| Circle::new(*p, 4, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .margin(14)
        .legend_area_size(34)
        .background_style(WHITE.mix(0.9))
        .border_style(INK.mix(0.3))
        .label_font(font(18))
        .draw()?;
    canvas.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_two_columns_and_draws_each_history() {
        let points = parse("iteration,relative_residual\n0,1.0\n1,1e-3\n2,0\n").unwrap();
        assert_eq!(points, [(0.0, 1.0), (1.0, 1e-3)]);
        assert!(parse("iteration,relative_residual\n0;1\n").unwrap_err().to_string().contains("line 2"));
        assert!(parse("iteration,relative_residual\n").is_err());

        crate::fonts::register();
        let names = ["ICCG(0)", "RRB"];
        let histories: Vec<History> =
            names.iter().map(|name| History { name: name.to_string(), points: points.clone() }).collect();
        let svg = draw(&histories, "title").unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(names.iter().all(|name| svg.contains(&format!("{name}: 1 iterations"))));
    }
}
