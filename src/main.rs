//! The specreel program: parse, dispatch, exit code; nothing else.

fn main() {
    // Mesa's layer that sorts GPUs asks the desktop for its own, and prints an error without one. GPUs are sorted here.
    if std::env::var_os("MESA_VK_DEVICE_SELECT").is_none() {
        // SAFETY: this is the program's first statement; no other thread runs yet.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
    std::process::exit(specreel::cli::run(std::env::args_os(), specreel::tui::start));
}
