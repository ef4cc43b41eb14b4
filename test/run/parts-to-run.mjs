import { resolve } from 'node:path';
import {
  NARROWING,
  VERIFIED,
  complaintsAbout,
  digestsOf,
  isCleanTree,
  readParts,
  readVerified,
  writeVerified,
} from './parts.mjs';

const CHANGED = '--changed';

/** Options that leave no test out. */
const HARMLESS = /^(?:--ci|(?:--maxWorkers|-w)(?:=.*)?|-i|--runInBand|--verbose)$/;

/** The same, where it has no "=": the next argument is its value. */
const HAS_VALUE = /^(?:--maxWorkers|-w)$/;

/**
 * What `npm run test:all -- OPTIONS` has to run.
 *
 * @returns `{ problem }`, or `{ args, verify }`: the arguments of Jest, `undefined` where nothing is to be
 * run, and a function that takes the completed files and writes the digests of the passed parts.
 */
export function partsToRun(options) {
  const root = process.cwd();
  const parts = readParts(root);
  const complaints = complaintsAbout(parts, root);
  if (complaints.length > 0) return { problem: complaints.join('\n') };

  const digests = digestsOf(parts, root);
  const isPart = (option) => parts.some(({ name }) => name === option);
  const named = options.filter(isPart);
  const others = options.filter((option) => option !== CHANGED && !isPart(option));
  const verified = readVerified(root);
  if (verified === undefined) console.log(`${VERIFIED} has no digests: nothing is verified.`);
  const isChanged = isChangedSince(verified ?? {}, digests);
  const chosen = parts
    .filter(({ name }) => named.length === 0 || named.includes(name))
    .filter(({ name }) => !options.includes(CHANGED) || isChanged(name));
  if (chosen.length === 0) return { args: undefined };
  const ofParts = [...others, '--runTestsByPath', ...chosen.flatMap(({ files }) => files)];
  // With a path or a pattern it is less than the part.
  const isHarmless = (option, at) => HARMLESS.test(option) || HAS_VALUE.test(others[at - 1]);
  if (!others.every(isHarmless)) {
    const isOfParts = chosen.length < parts.length || options.includes(CHANGED);
    return { args: isOfParts ? ofParts : others, verify: () => undefined };
  }
  const narrowing = NARROWING.filter((name) => process.env[name] !== undefined);
  const isClean = isCleanTree(root);
  return {
    args: ofParts,
    verify: (results) => {
      // CI only reads.
      if (process.env.CI) return;
      if (narrowing.length > 0) {
        console.log(`\n${VERIFIED} is unchanged: ${narrowing.join(', ')} changed what was run.`);
        return;
      }
      const passed = chosen.filter((part) => hasPassed(part, results));
      const now = digestsOf(parts, root);
      const isSame = ({ name }) => digests[name] !== undefined && digests[name] === now[name];
      if (!isClean || !isCleanTree(root) || !passed.every(isSame)) {
        console.log(`\n${VERIFIED} is unchanged: the files differ from the commit.`);
        return;
      }
      const failed = chosen.filter(
        (part) => verified?.[part.name] === digests[part.name] && hasFailed(part, results),
      );
      const changes = [
        ...passed.map(({ name }) => [name, digests[name]]),
        ...failed.map(({ name }) => [name, undefined]),
      ];
      writeVerified(Object.fromEntries(changes), parts, root);
      console.log(
        `\n${VERIFIED} has ${passed.map(({ name }) => name).join(', ') || 'nothing new'}.`,
      );
    },
  };
}

function isChangedSince(verified, digests) {
  return (name) => {
    const isAbsent = verified[name] === undefined;
    const isSame = !isAbsent && verified[name] === digests[name];
    console.log(`${name}: ${isSame ? 'same' : isAbsent ? 'absent' : 'differs'}`);
    return !isSame;
  };
}

function hasFailed({ files }, results) {
  const failed = results.filter((result) => result.failed > 0).map(({ file }) => file);
  return files.some((file) => failed.includes(resolve(file)));
}

/** All of its files passed at the first attempt. */
function hasPassed({ files }, results) {
  const passed = results.filter(({ failed }) => failed === 0).map(({ file }) => file);
  return files.every((file) => passed.includes(resolve(file)));
}
