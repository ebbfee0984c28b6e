// Requests to this server: answers as events, errors as one sentence.

export class ServerError extends Error {
  constructor(message, status) { super(message); this.status = status; }
}

export async function request(path, options = {}, key = '') {
  const headers = { ...options.headers };
  if (key) headers.authorization = 'Bearer ' + key;
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), { ...options, headers });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError('The server cannot be reached.', 0);
  }
  if (response.ok) return response;
  let message = '';
  try { message = (await response.json()).error.message; } catch { /* no JSON: the status says it */ }
  throw new ServerError(message || 'The server answered with status ' + response.status + '.', response.status);
}

// The data of each server-sent event. Bytes may be cut anywhere, within a character and between CR and LF too.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    rest += done ? '\n\n' : value;
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
      if (line !== '' || data.length === 0) continue;
      yield data.join('\n');
      data = [];
    }
    if (done) return;
  }
}

export async function* chat(body, key, signal) {
  const response = await request('v1/chat/completions',
    { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal }, key);
  for await (const data of events(response.body)) {
    if (data === '[DONE]') return;
    let chunk;
    try { chunk = JSON.parse(data); } catch { continue; }
    if (chunk.error) throw new ServerError(chunk.error.message ?? 'The answer failed.', 500);
    yield chunk;
  }
  if (!signal.aborted) throw new ServerError('The connection ended before the answer was complete.', 0);
}
