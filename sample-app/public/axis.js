/** A pause longer than this is drawn as a gap, so that the bars on both sides keep their width. */
const LONGEST_PAUSE_MS = 1500;
const SPACE_MS = 300;
/** The shortest time that the axis shows. */
const SHORTEST_MS = 2000;

const ENDS = {
  killed: 'process killed',
  completed: 'outcome stored',
  failed: 'failure stored',
  released: 'failed, nothing stored',
};

/** Draws the executions, then the requests, on one scale. */
export function drawAxis(list, requests, executions) {
  const lanes = [...executions.map(laneOfExecution), ...requests.map(laneOfRequest)];
  const scale = scaleOf(lanes);
  lanes.forEach((lane, index) => draw(list.children[index] ?? addLane(list), lane, scale));
  while (list.children.length > lanes.length) list.lastElementChild.remove();
}

function laneOfExecution({ process, attempt, isTakeover, beganAt, endedAt, how }) {
  return {
    from: beganAt,
    to: endedAt,
    kind: `execution ${endedAt === undefined ? 'waiting' : how}`,
    name: `Execution ${attempt}, process ${process}${isTakeover ? ', takeover' : ''}`,
    end: how === undefined ? 'under way' : (ENDS[how] ?? how.replaceAll('_', ' ')),
  };
}

function laneOfRequest({ number, verdict, sentAt, endedAt, response }) {
  const end = response === undefined ? (verdict ?? 'under way') : `${response.status} ${verdict}`;
  return { from: sentAt, to: endedAt, kind: verdict ?? 'waiting', name: `Request ${number}`, end };
}

/** Maps a time to a share of the axis; pauses are shortened. */
function scaleOf(lanes) {
  const now = Date.now();
  const spans = lanes.map(({ from, to = now }) => [from, to]).sort(([a], [b]) => a - b);
  const start = spans[0]?.[0] ?? now;
  const pauses = [];
  let end = start;
  for (const [from, to] of spans) {
    if (from - end > LONGEST_PAUSE_MS) pauses.push([end, from]);
    end = Math.max(end, to);
  }
  const shortened = (at) =>
    pauses.reduce((sum, [from, to]) => (at >= to ? sum - (to - from) + SPACE_MS : sum), at - start);
  const whole = Math.max(shortened(end), SHORTEST_MS);
  return { start, now, share: (at) => shortened(at) / whole };
}

function addLane(list) {
  const lane = document.querySelector('#lane').content.firstElementChild.cloneNode(true);
  return list.appendChild(lane);
}

function draw(item, { from, to, kind, name, end }, { start, now, share }) {
  const [title, track, times] = item.children;
  const seconds = (ms) => `${(ms / 1000).toFixed(2)} s`;
  const texts = [
    [title, name],
    [
      times,
      `at ${seconds(from - start)}, ${to === undefined ? '' : `${seconds(to - from)}, `}${end}`,
    ],
  ];
  for (const [element, text] of texts) {
    if (element.textContent !== text) element.textContent = text;
  }
  if (item.className !== kind) item.className = kind;
  const bar = track.firstElementChild.style;
  bar.setProperty('--from', `${100 * share(from)}%`);
  bar.setProperty('--to', `${100 * share(to ?? now)}%`);
}
