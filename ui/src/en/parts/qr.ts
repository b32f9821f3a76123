// The words of `parts/qr.tsx`.
export const qrCodeOfTheLink = 'QR code of the link';
