# Draws figure-12c-100ms.svg from figure-12c-100ms.dat, in this folder: gnuplot figure-12c-100ms.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key inside top center horizontal maxcols 3 samplen 1.5
set terminal svg size 1200,840 noenhanced background 'white'
set output 'figure-12c-100ms.svg'
set multiplot layout 2,2 title 'Figure 12c: batches while the objective steps between 5.5 and 100 ms'
set title 'batches'
set xlabel 's'
set ylabel 'requests'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-12c-100ms.dat' index 0 using 1:2 with linespoints lc rgb '#4477AA' title 'slab', \
       'figure-12c-100ms.dat' index 0 using 1:3 with linespoints lc rgb '#EE6677' title 'aimd'
set title 'throughput'
set xlabel 's'
set ylabel 'answers/s'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-12c-100ms.dat' index 1 using 1:2 with linespoints lc rgb '#4477AA' title 'slab', \
       'figure-12c-100ms.dat' index 1 using 1:3 with linespoints lc rgb '#EE6677' title 'aimd'
set title 'mean latency'
set xlabel 's'
set ylabel 'ms'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-12c-100ms.dat' index 2 using 1:2 with linespoints lc rgb '#4477AA' title 'slab', \
       'figure-12c-100ms.dat' index 2 using 1:3 with linespoints lc rgb '#EE6677' title 'aimd'
unset multiplot
unset output
