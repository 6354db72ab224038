//! A report as one HTML file that needs nothing else: plots as SVG in the page, no script, nothing fetched.
//!
//! Invariant: whatever text a report holds, the page shows it as text.

use std::fmt::Write as _;

use super::plot;
use super::report::{Cell, Report, Table};
use super::table::{heading, shown};

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 56rem; margin: 2rem auto; padding: 0 1rem }
h1 { margin-bottom: 0.2rem } h2 { margin-top: 2.5rem }
.question { font-size: 1.15rem; color: #555; margin-top: 0 }
.findings li { font-weight: 600 }
figure { margin: 1.5rem 0 } figure svg { width: 100%; height: auto; border: 1px solid #ddd; border-radius: 6px }
figcaption { color: #444; margin-top: 0.4rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; margin: 1rem 0 }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0 }
th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid #ddd; text-align: left } th { background: #f4f4f4 }
td.n, th.n { text-align: right }
code { background: #f4f4f4; padding: 0.1rem 0.3rem; overflow-wrap: anywhere }
footer { color: #777; font-size: 0.85rem; margin-top: 3rem }
";

/// The report as a page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(report: &Report) -> anyhow::Result<String> {
    let mut page = String::new();
    let title = escape(&report.title);
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n<p class=\"question\">{}</p>\n",
        escape(&report.question)
    )?;
    list(&mut page, "findings", &report.findings)?;
    for drawn in &report.plots {
        let (picture, meaning) = (plot::svg(drawn)?, escape(&drawn.meaning));
        writeln!(page, "<figure>\n{picture}\n<figcaption>{meaning}</figcaption>\n</figure>")?;
    }
    page.push_str("<h2>Figures</h2>\n");
    for table in &report.tables {
        figures(&mut page, table)?;
    }
    page.push_str("<h2>How it was measured</h2>\n");
    list(&mut page, "method", &report.method)?;
    writeln!(
        page,
        "<p><code>{}</code></p>\n<table>\n<caption>Server and client</caption>",
        escape(&report.command_line)
    )?;
    for (name, value) in &report.facts {
        writeln!(page, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(name), escape(value))?;
    }
    write!(
        page,
        "</table>\n<footer>lobgate {}, {}, {:.1} s</footer>\n</body>\n</html>\n",
        escape(&report.lobgate),
        escape(&report.taken_at),
        report.seconds
    )?;
    Ok(page)
}

fn list(page: &mut String, class: &str, sentences: &[String]) -> std::fmt::Result {
    if sentences.is_empty() {
        return Ok(());
    }
    writeln!(page, "<ul class=\"{class}\">")?;
    for sentence in sentences {
        writeln!(page, "<li>{}</li>", escape(sentence))?;
    }
    writeln!(page, "</ul>")
}

fn figures(page: &mut String, table: &Table) -> std::fmt::Result {
    writeln!(page, "<div class=\"wide\"><table>\n<caption>{}</caption>\n<tr>", escape(&table.title))?;
    let is_number = |key: &str| table.rows.iter().any(|row| matches!(row.get(key), Some(Cell::Number(_))));
    let class = |key: &str| if is_number(key) { " class=\"n\"" } else { "" };
    for column in &table.columns {
        write!(page, "<th{}>{}</th>", class(&column.key), escape(&heading(column)))?;
    }
    page.push_str("</tr>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for column in &table.columns {
            write!(page, "<td{}>{}</td>", class(&column.key), escape(&shown(column, row.get(&column.key))))?;
        }
        page.push_str("</tr>\n");
    }
    writeln!(page, "</table></div>")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::report::{Axis, Plot, Shape, Unit};
    use super::*;

    #[test]
    fn a_page_stands_alone_and_shows_text_as_text() {
        let mut report = Report::new("x", "<script>alert(1)</script>", "Why \"so\"?");
        let mut table = Table::new("t", "T & T", &[("size", "size", Unit::Bytes), ("ms", "p50", Unit::Milliseconds)]);
        table.row([Cell::from(4096_u64), Cell::from(1.5)]);
        report.plots.push(Plot {
            id: "p".into(),
            title: "P".into(),
            meaning: "Lower is better.".into(),
            shape: Shape::Lines,
            x: Axis::log("size", Unit::Bytes),
            y: Axis::log("time", Unit::Milliseconds),
            series: vec![table.series("a", "size", "ms")],
        });
        report.tables.push(table);
        report.fact("fsync", "on");
        let page = page(&report).unwrap();
        assert!(!page.contains("<script"), "{page}");
        for part in ["<svg", "Lower is better.", "4 KiB", "p50, ms", "T &amp; T", "fsync"] {
            assert!(page.contains(part), "{part}");
        }
        for fetched in ["src=", "href=", "url(", "@import"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
    }
}
