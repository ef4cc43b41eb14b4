import { idempotentFetch } from '../client/index.js';
import { drawAxis } from './axis.js';
import { demo } from './demo.js';
import { Order } from './order.js';
import { addResponse, showFacts } from './responses.js';
import { Tour } from './tour.js';

const COPIES = 10;
const ACTIVITY_EVERY_MS = 500;

const find = (selector) => document.querySelector(selector);
let order;
let counting = Promise.resolve();
let isDrawing = false;

const actions = {
  // Buttons stay enabled during a request, so that duplicates reach the server.
  pay: () => payOnce('Pay'),
  copies: () => {
    const copies = Array.from({ length: COPIES }, (_, index) => index + 1);
    return Promise.all(copies.map((copy) => payOnce(`Copy ${copy} of ${COPIES}`)));
  },
  retries: () => payWithRetries('With retries'),
  more: () => payOnce('1 EUR more', 100),
  renew: startOrder,
  lose: () => payWithFault('Lose the response', 'lose the response'),
  kill: () => (order.isDone ? offerNewOrder() : kill()),
  'kill-new': () => {
    startOrder();
    return kill();
  },
  store: () => demo.switchStore(),
};

find('form').addEventListener('submit', (event) => {
  event.preventDefault();
  actions[event.submitter.value]();
});
demo.addEventListener('change', showDemo);
const tour = new Tour(actions, demo, find('#tour-text'));
find('#tour').addEventListener('click', () => tour.toggle(find('#tour')));
startOrder();
showActivity();

function startOrder() {
  order = new Order();
  find('#key').value = order.key;
  find('#responses').replaceChildren();
  find('#none').hidden = false;
  find('#latest').hidden = find('#offer').hidden = true;
  demo.watch(order.key);
  show();
  readLedger();
}

/** The request that the form describes. */
function requestOf({ description }, extra = 0) {
  const form = new FormData(find('form'));
  const customer = form.get('customer');
  const amount = Number(form.get('amount')) + extra;
  const init = {
    method: 'POST',
    headers: {
      authorization: `Bearer ${customer.toLowerCase()}-demo-token`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ amount, currency: 'EUR', description }),
  };
  return { init, subject: `${(amount / 100).toFixed(2)} EUR, ${customer}` };
}

function payOnce(action, extra) {
  const { init, subject } = requestOf(order, extra);
  const headers = { ...init.headers, 'idempotency-key': order.key };
  return exchange(order, `${action}: ${subject}`, 'payments', { ...init, headers });
}

/** Shows each try of the library's client, whose last one is the result. */
async function payWithRetries(action) {
  const { init, subject } = requestOf(order);
  const { key } = order;
  const ofOrder = order;
  let tries = 0;
  const send = async (url, options) => {
    tries += 1;
    const title = tries === 1 ? action : `${action}, try ${tries}`;
    const response = await exchange(ofOrder, `${title}: ${subject}`, url, options);
    return response ?? Promise.reject(new TypeError('The response was lost'));
  };
  await idempotentFetch('payments', init, { key, deadline: '20s', fetch: send }).catch(
    () => undefined,
  );
}

const kill = () => payWithFault('Kill the process', 'kill the process');

/** Of an order that has its outcome nothing runs, so that nothing can be killed. */
function offerNewOrder() {
  find('#offer').hidden = false;
  find('[value=kill-new]').focus();
}

async function payWithFault(action, fault) {
  await demo.plan(fault, order.key);
  await payWithRetries(action);
}

/** Sends one request, and shows it and its response. Returns the response unread; `undefined` if it was lost. */
async function exchange(ofOrder, title, url, init) {
  const sent = ofOrder.send(title, url, init);
  const showResponse = ofOrder === order ? addResponse(sent) : () => undefined;
  show();
  const response = await fetch(url, init).catch(() => undefined);
  const unread = response?.clone();
  const body = await response?.text().catch(() => undefined);
  if (body === undefined) sent.lose();
  else sent.receive(response, body);
  await readLedger();
  showResponse();
  show();
  return body === undefined ? undefined : unread;
}

/** Counts sequentially, so that an older count never replaces a newer one. */
function readLedger() {
  const { description } = order;
  counting = counting.then(async () => {
    const query = new URLSearchParams({ description });
    const { charges, chargedTwice } = await fetch(`ledger?${query}`)
      .then((response) => (response.ok ? response.json() : Promise.reject(new Error('No ledger'))))
      .catch(() => ({ charges: { alice: 'unknown', bob: 'unknown' }, chargedTwice: 'unknown' }));
    if (description !== order.description) return;
    for (const [user, count] of Object.entries(charges)) find(`#${user}`).value = count;
    find('#twice').value = chargedTwice;
  });
  return counting;
}

/** Shows the meter, then again after a pause: also what other pages cause. */
async function showActivity() {
  const response = await fetch('activity').catch(() => undefined);
  if (response?.ok) {
    const { requests, ...others } = await response.json();
    const results = Object.entries(requests).map(([name, count]) => [
      name.replaceAll('_', ' '),
      count,
    ]);
    showFacts(find('#activity'), { ...Object.fromEntries(results), ...others });
  }
  setTimeout(showActivity, ACTIVITY_EVERY_MS);
}

function show() {
  showFacts(find('#counts'), order.counts);
  if (!isDrawing) draw();
}

/** While something is under way, its bar grows. */
function draw() {
  const { executions } = demo;
  drawAxis(find('#axis'), order.requests, executions);
  isDrawing = [...order.requests, ...executions].some(({ endedAt }) => endedAt === undefined);
  if (isDrawing) requestAnimationFrame(draw);
}

function showDemo() {
  find('#faults').disabled = !demo.isConnected;
  find('#without').hidden = !demo.isAbsent;
  find('#stale').hidden = demo.isConnected || !demo.isPresent;
  find('[value=store]').textContent = demo.isStoreAvailable
    ? 'Take the store away'
    : 'Give the store back';
  showFacts(find('#processes'), demo.facts);
  show();
}
