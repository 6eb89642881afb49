import { useState } from 'react';
import { useChat } from './useChat.js';

const MODEL = { repo: 'ggml-org/gemma-3-270m-it-GGUF', file: 'gemma-3-270m-it-Q8_0.gguf' };

export function Chat() {
  const { messages, status, progress, busy, send, stop } = useChat(MODEL);
  const [text, setText] = useState('');

  function submit(event) {
    event.preventDefault();
    if (busy || !text.trim()) return;
    setText('');
    send(text);
  }

  function pressed(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
  }

  return (
    <main onKeyDown={(event) => event.key === 'Escape' && stop()}>
      <h1>Chat in this tab</h1>
      <div className="log" role="log" aria-label="Conversation" aria-busy={busy}>
        {messages.map(({ role, content }, i) => (
          <p key={i} className={role}>
            {content}
          </p>
        ))}
      </div>
      <p role="status">{status}</p>
      {progress && <progress aria-label="Download" {...progress} />}
      <form onSubmit={submit}>
        <label htmlFor="message">Message</label>
        <textarea
          id="message"
          rows={3}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={pressed}
        />
        <button type="submit" disabled={busy}>
          Send
        </button>
        <button type="button" onClick={stop} disabled={!busy}>
          Stop
        </button>
      </form>
    </main>
  );
}
