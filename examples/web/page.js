/** Asks the service for the classes of a picture that is dropped or chosen. */
import { InputQueue } from 'cluster-serving/http';

const SERVICE = 'http://localhost:10020';
const CLASSES = 3;

const input = new InputQueue({ frontendUrl: SERVICE });
const find = (selector) => document.querySelector(selector);
const [drop, file, picture] = [find('#drop'), find('input'), find('img')];
const [status, table] = [find('[role=status]'), find('table')];
let asked;

/** Pairs of class and probability, the likeliest first: what a filter `topN(n)` answered, or of the model's first output. */
function classesOf({ value, outputs }) {
  if (Array.isArray(value)) return value.map(([index, probability, label = index]) => [label, probability]);
  const pairs = Array.from(outputs[0]?.data ?? [], (probability, index) => [index, probability]);
  if (pairs.length === 0 || pairs.some((pair) => !Number.isFinite(pair[1])))
    throw new Error('The model answered without probabilities.');
  return pairs.sort(([, a], [, b]) => b - a).slice(0, CLASSES);
}

async function show(blob) {
  // If two pictures are chosen in quick succession, the last one counts.
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(blob);
  picture.hidden = false;
  table.hidden = true;
  status.textContent = 'Asking …';
  try {
    const image = { bytes: new Uint8Array(await blob.arrayBuffer()) };
    const rows = classesOf(await input.predict({ image }, { signal }));
    table.tBodies[0].replaceChildren(
      ...rows.map(([label, probability]) => {
        const row = document.createElement('tr');
        row.insertCell().textContent = label;
        row.insertCell().textContent = `${(probability * 100).toFixed(1)} %`;
        return row;
      }),
    );
    table.hidden = false;
    status.textContent = `It is most likely a ${rows[0][0]}.`;
  } catch (error) {
    // A service that does not list the origin of this page under http.corsOrigins cannot be reached from it.
    if (!signal.aborted) status.textContent = error.message;
  }
}

file.addEventListener('change', () => {
  const [chosen] = file.files;
  if (chosen) void show(chosen);
});
drop.addEventListener('dragover', (event) => {
  event.preventDefault();
  drop.classList.add('over');
});
drop.addEventListener('dragleave', () => drop.classList.remove('over'));
drop.addEventListener('drop', (event) => {
  event.preventDefault();
  drop.classList.remove('over');
  const [dropped] = event.dataTransfer.files;
  if (dropped) void show(dropped);
});
