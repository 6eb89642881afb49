import { loadModel } from 'gemma-wasm';
import { useEffect, useRef, useState } from 'react';

const megabytes = (bytes) => Math.round(bytes / 1e6);

/**
 * Manages a conversation with a model. Loads the model at the first message, and frees it when the component unmounts.
 * `send` and `stop` never throw: failures are in `status`.
 */
export function useChat(source) {
  const [messages, setMessages] = useState([]);
  const [status, setStatus] = useState('The first message downloads the model.');
  const [progress, setProgress] = useState(null);
  const [busy, setBusy] = useState(false);
  const model = useRef(null);
  const chat = useRef(null);
  const controller = useRef(null);

  useEffect(
    () => () => {
      controller.current?.abort();
      model.current?.dispose();
      model.current = chat.current = null;
    },
    [],
  );

  function showProgress({ phase, loaded, total }) {
    if (phase === 'rest') return; // the model can be used while the rest is downloaded
    setStatus(`Loading the model: ${megabytes(loaded)} of ${total ? megabytes(total) : '?'} MB`);
    setProgress(phase === 'ready' ? null : { max: total ?? 1, value: total && loaded });
  }

  async function answer(text, signal) {
    if (!chat.current) {
      model.current = await loadModel(source, { restart: true, signal, onProgress: showProgress });
      chat.current = model.current.chat({ maxTokens: 500 });
    }
    setStatus('Answering…');
    const before = chat.current.messages;
    let content = '';
    const show = () => setMessages([...before, { role: 'user', content: text }, { role: 'assistant', content }]);
    show();
    for await (const piece of chat.current.send(text, { signal })) {
      content += piece;
      show();
    }
    setStatus(signal.aborted ? 'Stopped.' : 'Ready.');
  }

  async function send(text) {
    controller.current = new AbortController();
    setBusy(true);
    try {
      await answer(text, controller.current.signal);
    } catch (error) {
      setStatus(error.code === 'aborted' ? 'Stopped.' : error.message);
    }
    setProgress(null);
    setBusy(false);
  }

  return { messages, status, progress, busy, send, stop: () => controller.current?.abort() };
}
