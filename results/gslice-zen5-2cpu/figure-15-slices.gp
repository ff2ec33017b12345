# Draws figure-15-slices.svg from figure-15-slices.dat, in this folder: gnuplot figure-15-slices.gp
set datafile missing '?'
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8 border -1
set boxwidth 0.9
set grid ytics
set key inside top center horizontal maxcols 3 samplen 1.5
set terminal svg size 1200,1220 noenhanced background 'white'
set output 'figure-15-slices.svg'
set multiplot layout 3,2 title 'Figure 15b: slab and tuned shares'
set title 'part of the device'
set xlabel 's'
set ylabel '%'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-15-slices.dat' index 0 using 1:2 with linespoints lc rgb '#4477AA' title 'vit-base', \
       'figure-15-slices.dat' index 0 using 1:3 with linespoints lc rgb '#EE6677' title 'albert-large'
set title 'arrivals'
set xlabel 's'
set ylabel 'requests/s'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-15-slices.dat' index 1 using 1:2 with linespoints lc rgb '#4477AA' title 'vit-base', \
       'figure-15-slices.dat' index 1 using 1:3 with linespoints lc rgb '#EE6677' title 'albert-large'
set title 'batches'
set xlabel 's'
set ylabel 'requests'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-15-slices.dat' index 2 using 1:2 with linespoints lc rgb '#4477AA' title 'vit-base', \
       'figure-15-slices.dat' index 2 using 1:3 with linespoints lc rgb '#EE6677' title 'albert-large'
set title 'throughput'
set xlabel 's'
set ylabel 'answers/s'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-15-slices.dat' index 3 using 1:2 with linespoints lc rgb '#4477AA' title 'vit-base', \
       'figure-15-slices.dat' index 3 using 1:3 with linespoints lc rgb '#EE6677' title 'albert-large'
set title 'mean latency'
set xlabel 's'
set ylabel 'ms'
unset logscale y
set offsets graph 0, 0, 0.35, 0
unset logscale x
set yrange [0:*]
set xtics autofreq norotate
plot 'figure-15-slices.dat' index 4 using 1:2 with linespoints lc rgb '#4477AA' title 'vit-base', \
       'figure-15-slices.dat' index 4 using 1:3 with linespoints lc rgb '#EE6677' title 'albert-large'
unset multiplot
unset output
