//! `/v1/files`: videos that are sent once and asked about often.

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::{Json, body::Bytes, http::StatusCode};
use tokio::sync::mpsc;

use super::{IdPath, blocking, id};

use crate::api::{FileDeleted, FileList, FileObject};
use crate::videos::{Incoming, StoredFile};
use crate::{app::SharedApp, error::ApiError};

/// Longest file name that is kept, in characters.
const LONGEST_NAME: usize = 255;
/// Parts of a file that may wait for the disk.
const CHUNKS: usize = 8;
/// Longest other field, in bytes.
const LONGEST_FIELD: usize = 1024;

pub async fn list(State(app): State<SharedApp>) -> Json<FileList> {
    let data = app.videos.store.list().into_iter().map(object).collect();
    Json(FileList { object: "list", data, has_more: false })
}

pub async fn get(State(app): State<SharedApp>, path: IdPath) -> Result<Json<FileObject>, ApiError> {
    Ok(Json(object(app.videos.store.get(&id(path)?)?)))
}

pub async fn delete(State(app): State<SharedApp>, path: IdPath) -> Result<Json<FileDeleted>, ApiError> {
    let id = id(path)?;
    let deleted = id.clone();
    blocking(move || app.videos.store.delete(&deleted)).await?;
    Ok(Json(FileDeleted { id, object: "file", deleted: true }))
}

pub async fn upload(State(app): State<SharedApp>, request: Request) -> Result<Json<FileObject>, ApiError> {
    let received = receive(&app, request);
    let (incoming, name, purpose) = match app.options.timeout {
        None => received.await?,
        Some(timeout) => tokio::time::timeout(timeout, received).await.map_err(|_| {
            let message = "the upload took too long; use a faster connection, or raise --timeout";
            ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
        })??,
    };
    Ok(Json(object(blocking(move || app.videos.store.keep(incoming, name, purpose)).await?)))
}

/// Write a file as it comes in.
async fn write(app: &SharedApp, field: &mut Field<'_>) -> Result<Incoming, ApiError> {
    let (chunks, mut received) = mpsc::channel::<Bytes>(CHUNKS);
    let app = app.clone();
    let written = blocking(move || {
        let mut incoming = app.videos.store.incoming()?;
        while let Some(chunk) = received.blocking_recv() {
            incoming.write(&chunk)?;
        }
        Ok(incoming)
    });
    let read = async {
        while let Some(chunk) = field.chunk().await.map_err(broken)? {
            // A writer that has failed says why itself.
            if chunks.send(chunk).await.is_err() {
                break;
            }
        }
        drop(chunks);
        Ok(())
    };
    let (incoming, ()) = tokio::try_join!(written, read)?;
    Ok(incoming)
}

/// The file of an upload, its name and its purpose. What was received of an upload that ends early is removed.
async fn receive(app: &SharedApp, request: Request) -> Result<(Incoming, String, String), ApiError> {
    let mut fields = Multipart::from_request(request, app).await.map_err(|error| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_upload",
            format!("expected a multipart form: {error}"),
        )
    })?;
    let (mut file, mut purpose) = (None, "user_data".to_owned());
    while let Some(mut field) = fields.next_field().await.map_err(broken)? {
        match field.name() {
            Some("file") if file.is_none() => {
                let name =
                    field.file_name().unwrap_or("video").chars().take(LONGEST_NAME).collect::<String>();
                let incoming = write(app, &mut field).await?;
                if incoming.bytes() == 0 {
                    return Err(ApiError::invalid("file", "empty_file", "file: the file is empty"));
                }
                file = Some((incoming, name));
            }
            Some("purpose") => {
                let mut text = Vec::new();
                while let Some(chunk) = field.chunk().await.map_err(broken)? {
                    text.extend_from_slice(&chunk);
                    if text.len() > LONGEST_FIELD {
                        return Err(ApiError::invalid("purpose", "invalid_value", "purpose: too long"));
                    }
                }
                purpose = String::from_utf8_lossy(&text).into_owned();
            }
            Some("file") => {
                return Err(ApiError::invalid("file", "invalid_value", "file: one file per request"));
            }
            // `expires_after[anchor]` and `expires_after[seconds]`.
            Some(name) if name.starts_with("expires_after") => {
                let message =
                    "expires_after: not supported; leave it out, and delete the file (DELETE /v1/files/ID)";
                return Err(ApiError::invalid("expires_after", "unsupported_value", message));
            }
            // Skipped by the next field.
            _ => {}
        }
    }
    let Some((incoming, name)) = file else {
        let message = "file: the form has no field `file`; for example: curl -F file=@clip.mp4";
        return Err(ApiError::invalid("file", "missing_file", message));
    };
    Ok((incoming, name, purpose))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: MultipartError) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        "invalid_upload",
        format!("cannot read the upload: {}", error.body_text()),
    )
}

fn object(file: StoredFile) -> FileObject {
    let StoredFile { id, name, purpose, bytes, created, .. } = file;
    FileObject {
        id,
        object: "file",
        bytes,
        created_at: created,
        filename: name,
        purpose,
        status: "processed",
    }
}
