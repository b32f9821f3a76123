//! The table for people, and the same for machines.

use std::fmt::Write as _;

use crate::rows::{Better, Plan, Row};

/// How far ours is from the best of the others: above one, ours is ahead.
fn lead(row: &Row) -> Option<f64> {
    let (ours, others) = row.values.split_first()?;
    let best = match row.better {
        Better::Higher => others.iter().copied().reduce(f64::max)?,
        Better::Lower => others.iter().copied().reduce(f64::min)?,
    };
    Some(match row.better {
        Better::Higher => ours / best,
        Better::Lower => best / ours,
    })
}

fn shown(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub fn markdown(plan: &Plan, rows: &[Row]) -> String {
    let mut text = format!("{} entries, median of {} rounds\n\n| |", plan.entries, plan.rounds);
    for engine in &plan.engines {
        let _ = write!(text, " {} |", engine.name);
    }
    let _ = writeln!(
        text,
        " ours to the best peer |\n|---|{}---:|",
        "---:|".repeat(plan.engines.len())
    );
    for row in rows {
        let _ = write!(text, "| {}, {} |", row.name, row.unit);
        for value in &row.values {
            let _ = write!(text, " {} |", shown(*value));
        }
        let lead = lead(row).map_or("-".to_owned(), |lead| format!("{lead:.2}"));
        let _ = writeln!(text, " {lead} |");
    }
    text.push_str(
        "\nThe last column is above 1 where ours is ahead, whichever way the row counts.\n",
    );
    text
}

pub fn json(plan: &Plan, rows: &[Row]) -> String {
    let mut text = format!("{{\"entries\":{},\"rows\":[", plan.entries);
    for (place, row) in rows.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n{{\"name\":\"{}\",\"unit\":\"{}\"", row.name, row.unit);
        for (engine, value) in plan.engines.iter().zip(&row.values) {
            let _ = write!(text, ",\"{}\":{value:.3}", engine.name);
        }
        text.push('}');
    }
    text.push_str("\n]}\n");
    text
}
