const meanings = {
  first: 'The operation ran, and this outcome is stored.',
  replay: 'The stored response, byte for byte. Nothing ran.',
  conflict: 'An attempt is still in progress. Nothing else ran.',
  mismatch: 'This key belongs to another order. Nothing ran.',
  failed: 'The operation failed, nothing is stored: retry with the same key.',
  rejected: 'Rejected before anything ran.',
  lost: 'No response. Retry with the same key.',
};

const find = (selector) => document.querySelector(selector);

/** Adds a pending request to the list; returns a function that shows its response, with equal ones as one card. */
export function addResponse(sent) {
  const item = find('#response').content.firstElementChild.cloneNode(true);
  const part = (name) => item.querySelector(`[data-of=${name}]`);
  item.querySelector('span').textContent = `${sent.number}. ${sent.title}`;
  part('request').textContent = sent.requestText;
  part('response').textContent = sent.responseText;
  part('curl').textContent = sent.curl;
  const copy = item.querySelector('button');
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(sent.curl);
    copy.textContent = 'Copied';
  });
  find('#responses').prepend(item);
  find('#none').hidden = true;
  return () => {
    item.className = item.querySelector('strong').textContent = sent.verdict;
    item.querySelector('.note').textContent = meanings[sent.verdict];
    part('response').textContent = sent.responseText;
    showLatest(sent);
    const headers = sent.response?.headers;
    showFacts(item.querySelector('dl'), {
      Status: sent.response?.status,
      'Idempotent-Replayed': headers && (headers.get('idempotent-replayed') ?? 'none'),
      'Retry-After': headers?.get('retry-after'),
    });
    join(item, sent.sameness);
  };
}

/** The newer card of two that say the same stays, and counts. */
function join(item, sameness) {
  const same = [...find('#responses').children].find((other) => other.dataset.same === sameness);
  const count = 1 + Number(same?.dataset.count ?? 0);
  same?.remove();
  Object.assign(item.dataset, { same: sameness, count });
  item.querySelector('b').textContent = count === 1 ? '' : `× ${count}`;
}

/** On a phone the list is below what is seen: the newest answer is not. */
function showLatest({ verdict, response, number }) {
  const latest = find('#latest');
  latest.className = verdict;
  latest.hidden = false;
  latest.querySelector('strong').textContent = verdict;
  latest.querySelector('span').textContent =
    `${number}. ${response === undefined ? 'no response' : response.status}: ${meanings[verdict]}`;
}

/** Replaces a list of terms and values if it has changed: a selection and the place of a screen reader stay. */
export function showFacts(list, facts) {
  const entries = Object.entries(facts).filter(([, value]) => value != null);
  const text = JSON.stringify(entries);
  if (list.dataset.shown === text) return;
  list.dataset.shown = text;
  const rows = entries.map(([name, value]) => {
    const row = document.createElement('div');
    row.appendChild(document.createElement('dt')).textContent = name;
    row.appendChild(document.createElement('dd')).textContent = value;
    return row;
  });
  list.replaceChildren(...rows);
}
