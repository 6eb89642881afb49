'use client';
import { useEffect, useState } from 'react';

/** Repeats the request while the server is preparing the index. */
async function search(query, signal, setStatus) {
  for (;;) {
    const response = await fetch(`/api/search?q=${encodeURIComponent(query)}`, { signal });
    const { hits, error, preparing } = await response.json();
    if (error) throw new Error(error);
    if (hits) return hits;
    setStatus(preparing);
    await new Promise((resolve) => setTimeout(resolve, 500));
    signal.throwIfAborted();
  }
}

export default function Page() {
  const [query, setQuery] = useState('');
  const [hits, setHits] = useState([]);
  const [status, setStatus] = useState('The first search downloads the model to the server (0.3 GB).');

  useEffect(() => {
    if (!query.trim()) return setHits([]);
    const controller = new AbortController();
    search(query, controller.signal, setStatus).then(
      (found) => {
        setHits(found);
        setStatus(`${found.length} passages`);
      },
      (error) => controller.signal.aborted || setStatus(error.message),
    );
    return () => controller.abort();
  }, [query]);

  return (
    <main>
      <h1>Search by meaning</h1>
      <label>
        Question <input type="search" value={query} onChange={(event) => setQuery(event.target.value)} />
      </label>
      <p role="status">{status}</p>
      <ol>
        {hits.map(({ id, text, file, score }) => (
          <li key={id}>
            <p>{text}</p>
            <small>
              {file} ({score.toFixed(2)})
            </small>
          </li>
        ))}
      </ol>
    </main>
  );
}
