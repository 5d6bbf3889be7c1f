/** Where the import report lies beside a model, for programs and for people. */
import { join } from 'node:path';

export const REPORT_FILE = 'import-report.json';
export const REPORT_TEXT_FILE = 'import-report.md';

export function isReport(name: string): boolean {
  return name === REPORT_FILE;
}

/** True for the report as JSON and as text. */
export function isReportFile(name: string): boolean {
  return isReport(name) || name === REPORT_TEXT_FILE;
}

export function reportPath(folder: string): string {
  return join(folder, REPORT_FILE);
}
