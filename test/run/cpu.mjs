/** The cost of processes, from Linux's /proc; unknown elsewhere. */
import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_S = 100;
const isKnown = process.platform === 'linux';

/**
 * CPU seconds of this process, and of the children that it has waited for, with theirs; `undefined` except on
 * Linux.
 */
export function cpuOfThisProcess() {
  if (!isKnown) return undefined;
  const [own, ownSystem, children, childrenSystem] = statOf('self').slice(11);
  return {
    own: (Number(own) + Number(ownSystem)) / TICKS_PER_S,
    children: (Number(children) + Number(childrenSystem)) / TICKS_PER_S,
  };
}

/** CPU seconds of all processes of this machine since its start. */
export function cpuOfMachine() {
  if (!isKnown) return undefined;
  const [, user, nice, system, , , interrupts, softInterrupts] = readFileSync('/proc/stat', 'utf8')
    .split('\n', 1)[0]
    .split(/ +/)
    .map(Number);
  return (user + nice + system + interrupts + softInterrupts) / TICKS_PER_S;
}

/** The children of a process, and theirs: the last generation last. */
export function descendantsOf(pid) {
  if (!isKnown) return [];
  const childrenOf = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const parent = Number(statOf(name)[1]);
      childrenOf.set(parent, [...(childrenOf.get(parent) ?? []), Number(name)]);
    } catch {
      // It has just ended.
    }
  }
  const found = [pid];
  for (const one of found) found.push(...(childrenOf.get(one) ?? []));
  return found.slice(1);
}

/** The fields from the third on: the second is a name, and may contain blanks. */
function statOf(pid) {
  return readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
}
