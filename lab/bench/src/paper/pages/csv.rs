//! Every figure of every row, and every verdict, as comma-separated values.

use super::{Drafter, replayed};
use crate::paper::{cells, claims::Judged, measures::Measure};
use specreel_record::Failure;

const HEAD: &str = "paper,table,part,row,run,lossless,measure,paper_value,drafter,clips,value,low,high\n";

/// What was faster on the machine of the run is no figure of the paper's.
const HERE: [Measure; 2] = [Measure::Speedup, Measure::EndToEnd];

/// The verdict of each claim, and how many pairs of rows of a table are in the paper's order.
pub fn verdicts(judged: &[Judged], drafters: &[Drafter<'_>]) -> String {
    let mut out = "paper,table,part,of,drafter,verdict\n".to_owned();
    for claim in judged {
        let place = claim.claim.effect.as_ref().map(|effect| (effect.table.clone(), effect.part.clone()));
        let (table, part) = place.unwrap_or_default();
        let (says, verdict) = (claim.claim.says.clone(), claim.verdict.words().to_owned());
        out += &line(&[claim.paper.name.clone(), table, part, says, String::new(), verdict]);
    }
    for drafter in drafters {
        for (paper, compared) in &drafter.tables {
            let table = compared.table();
            let orders = compared.orders.iter().filter(|(measure, _)| !HERE.contains(measure));
            for (measure, orders) in orders.filter(|(_, orders)| !orders.pairs.is_empty()) {
                let verdict = cells::agreement(&orders.agreement);
                let place = [&paper.name, &table.number, &table.part].map(String::clone);
                out += &line(&[&place[..], &[measure.key(), drafter.name().to_owned(), verdict]].concat());
            }
        }
    }
    out
}

/// Fails if a profile is invalid.
pub fn figures(drafters: &[Drafter<'_>]) -> Result<String, Failure> {
    let mut out = HEAD.to_owned();
    for drafter in drafters {
        for (paper, compared) in &drafter.tables {
            let table = compared.table();
            for (row, ours) in table.rows.iter().zip(&compared.rows) {
                for (measure, figure) in ours.figures.iter().filter(|(measure, _)| !HERE.contains(measure)) {
                    let (low, high) = figure.interval.unzip();
                    let fields = [
                        paper.name.clone(),
                        table.number.clone(),
                        table.part.clone(),
                        row.label.clone(),
                        ours.run.clone().unwrap_or_default(),
                        ours.lossless.map(|lossless| lossless.to_string()).unwrap_or_default(),
                        measure.key(),
                        number(row.figures.get(&measure.of_paper()).copied()),
                        drafter.name().to_owned(),
                        ours.clips.to_string(),
                        number(Some(figure.value)),
                        number(low),
                        number(high),
                    ];
                    out += &line(&fields);
                }
            }
        }
    }
    // What is replayed does not depend on the drafter.
    for (paper, compared) in drafters.first().into_iter().flat_map(|drafter| &drafter.tables) {
        let table = compared.table();
        for row in replayed(paper, compared)? {
            let mut fields = [(); 13].map(|()| String::new());
            fields[..4].clone_from_slice(&[
                paper.name.clone(),
                table.number.clone(),
                table.part.clone(),
                row.label.to_owned(),
            ]);
            fields[6] = format!("{}_at_paper_acceptance", row.measure.key());
            fields[7] = number(Some(row.paper));
            fields[10] = number(Some(row.modelled));
            out += &line(&fields);
        }
    }
    Ok(out)
}

/// Four significant decimals; empty for none.
fn number(value: Option<f64>) -> String {
    value.map(|value| format!("{}", (value * 1e4).round() / 1e4)).unwrap_or_default()
}

fn line(fields: &[String]) -> String {
    let quoted = |field: &String| match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    };
    let fields: Vec<String> = fields.iter().map(quoted).collect();
    fields.join(",") + "\n"
}

/// The fields of a line, as [`line`] writes them.
pub fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quoted) {
            ('"', true) if letters.peek() == Some(&'"') => {
                letters.next();
                fields.last_mut().into_iter().for_each(|field| field.push('"'));
            }
            ('"', _) => quoted = !quoted,
            (',', false) => fields.push(String::new()),
            _ => fields.last_mut().into_iter().for_each(|field| field.push(letter)),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        let fields = ["a", "b, c", "say \"d\""].map(str::to_owned);
        assert_eq!(line(&fields), "a,\"b, c\",\"say \"\"d\"\"\"\n");
        assert_eq!(super::fields(line(&fields).trim_end()), fields);
        assert_eq!((number(Some(2.123_456)), number(None)), ("2.1235".into(), String::new()));
    }
}
