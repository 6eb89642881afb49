import { useChat } from '@ai-sdk/react';
import { useState } from 'react';
import { transport } from './transport.js';

export function Chat() {
  const [status, setStatus] = useState('The first message downloads the model.');
  const [progress, setProgress] = useState(null);
  const [text, setText] = useState('');
  const chat = useChat({
    transport,
    onData({ data }) {
      setStatus(data.status === 'complete' ? 'Answering…' : data.message);
      setProgress(data.status === 'complete' ? null : data.progress);
    },
    onError: ({ message }) => setStatus(message),
    onFinish({ isAbort, isError }) {
      setProgress(null);
      if (!isError) setStatus(isAbort ? 'Stopped.' : 'Ready.');
    },
  });
  const busy = chat.status === 'submitted' || chat.status === 'streaming';

  function submit(event) {
    event.preventDefault();
    if (busy || !text.trim()) return;
    setText('');
    setStatus('Answering…');
    chat.sendMessage({ text });
  }

  function pressed(event) {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
  }

  return (
    <main onKeyDown={(event) => event.key === 'Escape' && chat.stop()}>
      <h1>Chat in this tab</h1>
      <div className="log" role="log" aria-label="Conversation" aria-busy={busy}>
        {chat.messages.map(({ id, role, parts }) => (
          <p key={id} className={role}>
            {parts.map((part) => (part.type === 'text' ? part.text : ''))}
          </p>
        ))}
      </div>
      <p role="status">{status}</p>
      {progress !== null && <progress aria-label="Download" max={100} value={progress} />}
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
        <button type="button" onClick={() => chat.stop()} disabled={!busy}>
          Stop
        </button>
      </form>
    </main>
  );
}
