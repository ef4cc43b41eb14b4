import { loadReport, type Row } from '../../test/support/docs/figures/report.js';
import { CHECKS, type Check } from './checks.js';
import type { Verdict } from './model.js';

/** The figures are kept in `docs/measurements/figures/model.json`, and shown in docs/explanation/protocol.md. */
export const REPORT = 'model';

/** What docs/explanation/protocol.md says of a run, besides what the run has counted. */
export const propertyOf = ({ name, property, definitions }: Check): Row => ({
  run: name,
  'what holds': property?.holds ?? '',
  environment: property?.environment ?? '',
  bounds: boundsOf(definitions),
});

/**
 * The runs without an error. One that is not among the verdicts keeps what it counted before.
 *
 * @param version - of the spin that runs now.
 * @param date - of today.
 * @throws where this version has never counted a run.
 */
export function rowsOf(
  verdicts: ReadonlyMap<string, Verdict>,
  version: string,
  date: string,
): Row[] {
  const earlier = countedBy(version);
  return CHECKS.filter(({ property }) => property !== undefined).map((check) => {
    const { name } = check;
    const states = verdicts.get(name)?.states;
    if (states !== undefined) return { ...propertyOf(check), states, 'counted on': date };
    const kept = earlier.find(({ run }) => run === name);
    if (kept === undefined) {
      throw new Error(`Spin ${version} has never counted the run "${name}": name no run.`);
    }
    return { ...kept, ...propertyOf(check) };
  });
}

/** The states of each run: the same whenever this version of spin counts them, and none if another one has. */
export function statesCountedBy(version: string): ReadonlyMap<string, number> {
  return new Map(countedBy(version).map(({ run, states }) => [String(run), Number(states)]));
}

/** Another version may merge other statements into one, and has other states. */
function countedBy(version: string): readonly Row[] {
  const report = loadReport(REPORT);
  return report?.versions.Spin === version ? report.table : [];
}

/** Workers × attempts. */
function boundsOf(definitions: readonly string[]): string {
  const { N, ATT, CONTENTS } = Object.fromEntries(
    definitions.map((definition) => definition.split('=')),
  ) as Record<string, string>;
  return `${N} × ${ATT}${CONTENTS === undefined ? '' : `, ${CONTENTS} contents`}`;
}
