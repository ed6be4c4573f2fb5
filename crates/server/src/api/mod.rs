//! What the server speaks: requests and responses of OpenAI's API, with specreel's extensions.

mod request;
mod response;

pub use request::{ChatRequest, Content, Extension, InputVideo, MediaUrl, Message, Part, Role, Stop, parse};
pub use response::{
    CachedTokens, Chat, Choice, Chunk, ChunkChoice, Delta, FileDeleted, FileList, FileObject, Logprob,
    Logprobs, MessageOut, ModelList, ModelObject, PieceReport, PromptReport, ReasoningTokens, Report,
    RowReport, RunReport, TokenReport, TopLogprob, Usage,
};
