//! The program: arguments in, exit code out.

fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    std::process::exit(specreel_lab::run(&arguments));
}
