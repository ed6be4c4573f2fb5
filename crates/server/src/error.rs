//! Errors as the clients of OpenAI and Anthropic expect them: `{"type": "error", "error": {"message", "type", "param", "code"}}`.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::pool::Refused;
use specreel_record::{Failure, FailureClass};

/// Why a request is not answered.
#[derive(Clone, Debug)]
pub struct ApiError {
    pub status: StatusCode,
    /// What happened, and what to do about it.
    pub message: String,
    /// The field of the request at fault, such as `messages[0].content[1]`.
    pub param: Option<String>,
    /// Machine-readable error code.
    pub code: &'static str,
    /// When to try again.
    pub retry_after: Option<Duration>,
}

/// The body of an error.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorBody {
    /// `error`.
    pub r#type: &'static str,
    pub error: ErrorDetail,
}

/// What is wrong with a request.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDetail {
    /// What happened, and what to do about it.
    pub message: String,
    /// `invalid_request_error`, `authentication_error`, `rate_limit_error` or `server_error`.
    pub r#type: &'static str,
    /// The field at fault.
    pub param: Option<String>,
    /// Machine-readable error code.
    pub code: &'static str,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code, retry_after: None }
    }

    /// A request that cannot be answered as it is.
    pub fn invalid(param: impl Into<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::new(StatusCode::BAD_REQUEST, code, message) }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// The server cannot take the request now.
    pub fn unavailable(message: impl Into<String>, retry_after: Duration) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(retry_after), ..error }
    }

    /// A failure of the engine or of a file, at this field of the request.
    pub fn failure(failure: &Failure, param: Option<&str>) -> Self {
        let message = match &failure.hint {
            Some(hint) => format!("{}; {hint}", failure.error),
            None => failure.error.clone(),
        };
        let (status, code) = match failure.class {
            FailureClass::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
            FailureClass::Usage | FailureClass::Input => (StatusCode::BAD_REQUEST, "invalid_value"),
            // Trying again does not help: what could be freed was.
            FailureClass::Memory => (StatusCode::PAYLOAD_TOO_LARGE, "insufficient_memory"),
        };
        Self { param: param.map(str::to_owned), ..Self::new(status, code, message) }
    }

    pub fn body(&self) -> ErrorBody {
        let r#type = match self.status.as_u16() {
            401 | 403 => "authentication_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let error =
            ErrorDetail { message: self.message.clone(), r#type, param: self.param.clone(), code: self.code };
        ErrorBody { r#type: "error", error }
    }
}

impl From<Refused> for ApiError {
    fn from(why: Refused) -> Self {
        match why {
            Refused::Full(after) => Self {
                retry_after: Some(after),
                ..Self::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "queue_full",
                    "too many requests are waiting; try again later",
                )
            },
            Refused::Loading => {
                Self::unavailable("the models are still loading; try again later", Duration::from_secs(2))
            }
            Refused::Closed => Self::unavailable(
                "the server is shutting down; send the request to another one",
                Duration::from_secs(5),
            ),
            Refused::Lost => {
                Self::unavailable("the engine has stopped; restart the server", Duration::from_secs(5))
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}
