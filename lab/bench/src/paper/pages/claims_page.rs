//! The claims of the papers: effects, and what became of them.

use super::{Drafter, conditions, pipes};
use crate::paper::claims::{Judged, Verdict};
use specreel_client::present::formats::NOTHING;

const INTRODUCTION: &str = "\
# The papers' claims

What the five papers claim, next to what specreel measures. ";

const RULES: &str = "\
They say nothing about long videos, about real language, or about speed on a GPU: clips of a few seconds show a few flat figures in
about a hundred visual tokens, captions follow a grammar, and its phrases are drawn at random. So the **effect** is compared: how
many times as large one row of a table is as another, not the rows themselves. Each verdict is the highest one whose threshold the
whole 95 % interval clears:

* **reproduced**: the effect is at least half of the paper's (on a logarithmic scale), with every drafter. Where the paper gives an
  order without figures, it is more than a tie (2 %). A figure that shall hold is at most 5 points below the paper's.
* **partly**: it is at least a tenth of the paper's, or it is not there with every drafter.
* **not reproduced**: other clips may reverse it, or it is less than a tenth of the paper's.
* **the opposite**: it is surely the other way round.
* **true by construction**: it follows from how the methods or the profile are built. Not counted.
* **cannot be tested here**: it needs what the models lack.

Counts are summed over the clips, modelled times as well; in brackets the middle 95 % of resampled sets of clips. What is left to
chance is drawn three times on every clip, with seeds of its own, and resampled with it. *Modelled* is the decoding speedup on the
paper's hardware ([profiles.md](profiles.md)), computed from the drafts that were accepted here: not a measurement.
`specreel-lab bench --paper all` measures, and `--pages` writes these pages ([bench.md](bench.md#a-papers-tables---paper)).

";

const COLUMNS: &str = "\
## Columns of the tables

Each paper has a page with all its tables; [figures.csv](papers/figures.csv) has every figure. [verdicts.csv](papers/verdicts.csv)
has every verdict. Speedups as measured on the machine of the run are in none of them: on a CPU a pass of many rows costs several
passes of one row, so they say nothing about the papers' ([speed.md](speed.md) has them).

* **tau** is without the bonus token, **per step** with it: papers differ. **M** counts accepted drafts between two rejects under
  the parallel schedule, and is *per step* under the sequential one, as ParallelVLM counts. **accepted** is accepted over drafted.
  **kept** is right facts relative to autoregressive decoding; ~ marks lossy methods.
* **speedup, modelled**: the drafts accepted here, charged by a profile of the paper's hardware. **at the paper's acceptance**: the
  paper's own acceptance and sizes, charged by the same profile; what differs from the paper there is the profile's error. Figures
  that a profile is calibrated with are marked.
* **Pairs**: two rows of a table that the paper ranks. They *agree* if the order is the same here and the interval of the
  difference excludes 0, are *within noise* if it does not, and *disagree* if it is the opposite. Rows that the paper has within 2 %
  of each other, or within 2.5 points of accuracy (the deviation that LVSpec's Table 6 reports), are ties and no pair.
";

pub fn page(judged: &[Judged], drafters: &[Drafter<'_>]) -> String {
    let mut out =
        format!("{INTRODUCTION}All figures here were measured on:\n\n{}\n{RULES}", conditions(drafters));
    out += &summary(judged);
    let mut last = "";
    for claim in judged {
        if claim.paper.name != last {
            last = &claim.paper.name;
            let own: Vec<&Judged> = judged.iter().filter(|other| other.paper.name == last).collect();
            out += &format!("\n## {}\n\n", claim.paper.title);
            out += &format!("*{}*. [Every table](papers/{}.md).\n\n", claim.paper.paper, claim.paper.name);
            out += &table(&own, drafters);
        }
    }
    format!("{out}\n{COLUMNS}")
}

fn summary(judged: &[Judged]) -> String {
    let count = |verdict: Verdict| judged.iter().filter(|claim| claim.verdict == verdict).count();
    let verdicts =
        [Verdict::Reproduced, Verdict::Partly, Verdict::Not, Verdict::Opposite, Verdict::NotTestable];
    let cells: Vec<Vec<String>> = [vec!["verdict".to_owned(), "claims".to_owned()]]
        .into_iter()
        .chain(verdicts.map(|verdict| vec![verdict.words().to_owned(), count(verdict).to_string()]))
        .collect();
    pipes(&cells, 1)
}

fn table(own: &[&Judged], drafters: &[Drafter<'_>]) -> String {
    let mut head = vec!["claim".to_owned(), "in the paper".to_owned()];
    head.extend(drafters.iter().map(|drafter| drafter.name().to_owned()));
    head.push("verdict".into());
    let mut rows = vec![head];
    let mut sentences = String::new();
    for claim in own {
        let mut row = vec![claim.claim.says.trim_end_matches('.').to_owned(), claim.theirs.clone()];
        row.extend(claim.ours.iter().map(|ours| ours.clone().unwrap_or_else(|| NOTHING.into())));
        row.push(format!("**{}**", claim.verdict.words()));
        rows.push(row);
        sentences += &format!("* {}: {}\n", claim.claim.says.trim_end_matches('.'), claim.claim.found);
    }
    format!("{}\n{sentences}", pipes(&rows, 2))
}
