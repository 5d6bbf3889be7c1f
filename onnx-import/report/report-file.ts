/** The files of the import report beside a model: JSON for programs, Markdown for people. */
import { join } from 'node:path';

export const REPORT_FILE = 'import-report.json';
export const REPORT_TEXT_FILE = 'import-report.md';

/** True for the report as JSON and as text. */
export function isReportFile(name: string): boolean {
  return name === REPORT_FILE || name === REPORT_TEXT_FILE;
}

export function reportPath(folder: string): string {
  return join(folder, REPORT_FILE);
}
