// The words of `parts/chart.tsx`.
export const min = (math: number): string => `−${math} min`;
export const asAChart = (title: string): string => `${title} as a chart`;
export const asATable = (title: string): string => `${title} as a table`;
export const time = 'Time';
export const now = 'now';
export const promql = 'PromQL';
