/* Sends a text to the offscreen document and shows the summary that it returns. */
const [form, text, send, stop, status, progress, summary] = document.querySelectorAll('[id]');
let port;

async function connect() {
  const contexts = await chrome.runtime.getContexts({ contextTypes: ['OFFSCREEN_DOCUMENT'] });
  if (!contexts.length) {
    const justification = 'Runs a language model in a worker.';
    await chrome.offscreen.createDocument({ url: 'offscreen.html', reasons: ['WORKERS'], justification });
  }
  return chrome.runtime.connect();
}

function end(message) {
  port?.disconnect();
  port = undefined;
  status.textContent = message;
  progress.hidden = stop.disabled = true;
  send.disabled = false;
  summary.ariaBusy = 'false';
}

function show({ loaded, total, piece, error, done }) {
  if (loaded !== undefined) {
    status.textContent = `Loading the model: ${Math.round(loaded / 1e6)} of ${total ? Math.round(total / 1e6) : '?'} MB`;
    progress.hidden = false;
    if (total) Object.assign(progress, { max: total, value: loaded });
  }
  if (piece !== undefined) {
    status.textContent = 'Summarising…';
    progress.hidden = true;
    summary.textContent += piece;
  }
  if (error !== undefined) end(error);
  if (done) end('Ready.');
}

form.onsubmit = async (event) => {
  event.preventDefault();
  send.disabled = true;
  summary.textContent = '';
  summary.ariaBusy = 'true'; // screen readers wait for the complete summary
  try {
    port = await connect();
    stop.disabled = false;
    port.onMessage.addListener(show);
    port.postMessage({ text: text.value });
  } catch (error) {
    end(error.message);
  }
};
stop.onclick = () => end('Stopped.');
document.onkeydown = (event) => {
  if (event.key !== 'Escape' || !port) return;
  event.preventDefault(); // Escape must not close the popup
  end('Stopped.');
};
