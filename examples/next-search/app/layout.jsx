export const metadata = { title: 'Search by meaning' };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body style={{ maxWidth: '40rem', margin: 'auto', padding: '1rem', fontFamily: 'system-ui, sans-serif' }}>
        {children}
      </body>
    </html>
  );
}
