//! `specreel skills`: tells coding agents how to use this program.

use super::*;
use crate::cli::args::skills::{SkillsAction, SkillsArgs};

const SKILL: &str = include_str!("../../../assets/text/skill.md");

/// Where agents look for skills, below a project or a home directory.
const FOLDERS: [&str; 2] = [".agents/skills", ".claude/skills"];

pub fn run(args: &SkillsArgs) -> Result<i32, End> {
    let SkillsAction::Install { dir, user, force } = &args.action else {
        return print(SKILL);
    };
    let home = || {
        std::env::home_dir().filter(|home| home.is_dir()).ok_or_else(|| {
            Failure::usage(
                "--user: there is no home directory",
                "pass a directory instead: specreel skills install DIR",
            )
        })
    };
    let dir = match (dir, user) {
        (Some(dir), _) => dir.clone(),
        (None, true) => home()?,
        (None, false) => PathBuf::from("."),
    };
    if !dir.is_dir() {
        let error = format!("{} is no directory", dir.display());
        return Err(Failure::usage(error, "pass the directory of a project, or --user").into());
    }
    let files = FOLDERS.map(|folder| dir.join(folder).join("specreel/SKILL.md"));
    for file in &files {
        let differs = std::fs::read(file).is_ok_and(|found| found != SKILL.as_bytes());
        if differs && !force {
            let error = format!("{} differs from this version's", file.display());
            return Err(Failure::usage(error, "add --force to replace it").into());
        }
    }
    for file in &files {
        write(file).map_err(|error| {
            Failure::input(
                format!("cannot write {}: {error}", file.display()),
                "pass a directory that you can write to",
            )
        })?;
        tell!("wrote {}", color::plain(&file.to_string_lossy()));
    }
    Ok(0)
}

fn write(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, SKILL)
}
