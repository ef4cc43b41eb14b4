import { idempotentFetch, newIdempotencyKey } from './client/index.js';

const meanings = {
  first: 'The operation ran, and this outcome is stored.',
  replay: 'The stored response, byte for byte. Nothing ran.',
  conflict: 'The first request is still in progress. Nothing else ran.',
  mismatch: 'This key belongs to another order. Nothing ran.',
  failed: 'The operation failed, nothing is stored: retry with the same key.',
  rejected: 'Rejected before anything ran.',
  lost: 'No response. Retry with the same key.',
};

const POLL_MS = 500;

const find = (selector) => document.querySelector(selector);
const key = find('#key');
let ledger = Promise.resolve();
let activity = '';

const actions = {
  // Buttons stay enabled during a request, so that duplicates reach the server.
  pay: () => pay('Pay'),
  twice: () => [pay('First of two'), pay('Second of two')],
  retries: () => pay('With retries', { send: sendWithRetries }),
  more: () => pay('1 EUR more', { extra: 100 }),
  renew: () => (key.value = newIdempotencyKey()),
};

find('form').addEventListener('submit', (event) => {
  event.preventDefault();
  actions[event.submitter.value]();
});
actions.renew();
readLedger();
watchActivity();

async function pay(action, { send = sendOnce, extra = 0 } = {}) {
  const order = new FormData(find('form'));
  const amount = Number(order.get('amount')) + extra;
  const customer = order.get('customer');
  const user = customer.toLowerCase();
  const show = addResponse(`${action}: ${(amount / 100).toFixed(2)} EUR, ${customer}`);
  const init = {
    method: 'POST',
    headers: { authorization: `Bearer ${user}-demo-token`, 'content-type': 'application/json' },
    body: JSON.stringify({ amount, currency: 'EUR' }),
  };
  const { response, tries } = await send('payments', init, key.value);
  const verdict = await verdictOn(response);
  const charges = await readLedger();
  show(verdict, {
    Status: response?.status,
    'Idempotent-Replayed': response?.headers.get('idempotent-replayed') ?? 'none',
    'Retry-After': response?.headers.get('retry-after'),
    Tries: tries,
    [`Charges to ${customer}`]: charges[user],
  });
}

async function sendOnce(url, init, key) {
  const headers = { ...init.headers, 'idempotency-key': key };
  return { response: await fetch(url, { ...init, headers }).catch(() => undefined) };
}

/** An error carries the same as a response: the last response, if any, and the number of tries. */
function sendWithRetries(url, init, key) {
  return idempotentFetch(url, init, { key, deadlineMs: 20_000 }).catch((error) => error);
}

async function verdictOn(response) {
  if (response === undefined) return 'lost';
  if (response.headers.get('idempotent-replayed') === 'true') return 'replay';
  const { code } = await response.json();
  if (code === 'idempotency_in_progress') return 'conflict';
  if (code === 'idempotency_key_reused') return 'mismatch';
  if (code?.startsWith('idempotency_')) return 'rejected';
  return response.status < 500 ? 'first' : 'failed';
}

/** Counts sequentially, so that an older count never replaces a newer one. */
function readLedger() {
  ledger = ledger.then(async () => {
    const { charges, chargedTwice } = await fetch('ledger').then((response) => response.json());
    for (const [user, count] of Object.entries(charges)) find(`#${user}`).value = count;
    find('#twice').value = chargedTwice;
    return charges;
  });
  return (ledger = ledger.catch(() => ({})));
}

/** Adds a line for a pending request; returns a function that shows the response. */
function addResponse(title) {
  const item = find('template').content.firstElementChild.cloneNode(true);
  item.querySelector('span').textContent = title;
  find('ol').prepend(item);
  find('#none').hidden = true;
  return (verdict, facts) => {
    item.className = item.querySelector('strong').textContent = verdict;
    item.querySelector('.note').textContent = meanings[verdict];
    showFacts(item.querySelector('dl'), facts);
  };
}

/** Polls while the page is visible, one request at a time. */
async function watchActivity() {
  for (;;) {
    while (document.hidden) {
      await new Promise((shown) =>
        document.addEventListener('visibilitychange', shown, { once: true }),
      );
    }
    find('#stale').hidden = await showActivity().then(
      () => true,
      () => false,
    );
    await new Promise((over) => setTimeout(over, POLL_MS));
  }
}

async function showActivity() {
  const text = await fetch('activity').then((response) => response.text());
  // Replaced numbers would lose a selection, and the place of a screen reader.
  if (text === activity) return;
  const { requests, ...attempts } = JSON.parse(text);
  showFacts(find('#requests'), requests);
  showFacts(find('#attempts'), attempts);
  activity = text;
}

function showFacts(list, facts) {
  const entries = Object.entries(facts).filter(([, value]) => value != null);
  const rows = entries.map(([name, value]) => {
    const row = document.createElement('div');
    row.appendChild(document.createElement('dt')).textContent = name;
    row.appendChild(document.createElement('dd')).textContent = value;
    return row;
  });
  list.replaceChildren(...rows);
}
