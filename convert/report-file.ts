/**
 * Where the import report lies beside a model. Versions before this one named it passport.json, and their folders are
 * still read.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';

export const REPORT_FILE = 'import-report.json';
export const REPORT_TEXT_FILE = 'import-report.md';

const FORMER_REPORT_FILE = 'passport.json';

/** The files with the report as JSON, today's name first. */
const REPORT_FILES: readonly string[] = [REPORT_FILE, FORMER_REPORT_FILE];
const TEXT_FILES: readonly string[] = [REPORT_TEXT_FILE, 'passport.md'];

export function isReport(name: string): boolean {
  return REPORT_FILES.includes(name);
}

/** True for the report as JSON and as text. */
export function isReportFile(name: string): boolean {
  return isReport(name) || TEXT_FILES.includes(name);
}

/** @returns the path of the report in a folder; that of today's name where there is none */
export async function reportPath(folder: string): Promise<string> {
  const [today, former] = [join(folder, REPORT_FILE), join(folder, FORMER_REPORT_FILE)];
  const isThere = (path: string) =>
    stat(path).then(
      () => true,
      () => false,
    );
  return !(await isThere(today)) && (await isThere(former)) ? former : today;
}
